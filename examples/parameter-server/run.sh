#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: a parameter server whose system calls are made directly, through an emulated exit from an enclave, and by
# a thread outside, under the same load. REQUESTS, CONNECTIONS, ITEMS of a request and RATE (requests a second; 0: as many
# as are answered) can be given. The table stays in DIR, if it is given.
set -eu
umask 077
requests=${REQUESTS:-20000} connections=${CONNECTIONS:-4} items=${ITEMS:-1} rate=${RATE:-0}
folder=${1:-$(mktemp -d)}
server=
# A client that fails leaves a server that waits for it.
clean_up() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || :
	[ -n "$1" ] || rm -rf "$folder"
}
trap 'clean_up "${1:-}"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$folder"
cd "$folder"

: >table
for way in direct exit queue; do
	rm -f port
	mkfifo port
	parameter-server "$way" "$connections" >port &
	server=$!
	exec 3<port
	read -r number <&3
	parameter-client "$number" "$connections" "$requests" "$items" "$rate" >client
	read -r served <&3
	exec 3<&-
	wait "$server"
	server=
	echo "$way: $(cat client), $served" | tee -a table
done
rm -f port client

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo-service.sh [DIR]: one service, two tenants. Alice and Bob have keys of their own and, where this script may choose, also users
# of their own. Each submits eight sealed batches at the same time; then the service shows what it did, refuses a batch that
# comes again, and stops. DEVICE names the device. Results stay in DIR, if it is given.
set -eu
umask 077
folder=${1:-$(mktemp -d)}
given=${1:-}
shared=$(mktemp -d /tmp/sgpu-service.XXXXXX) # for the socket, which all users reach
server=

clean_up() {
	trap '' INT TERM
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	wait
	rm -rf "$shared"
	[ -n "$given" ] || rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
mkdir -p "$folder"
cd "$folder"

# as USER COMMAND...: where two users can be had, they need not exist.
if setpriv --reuid=61001 --regid=61001 --clear-groups true 2>/dev/null; then
	as() {
		user=$1
		shift
		setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
	}
	users="user 61001 and user 61002"
else
	as() {
		shift
		"$@"
	}
	users="one user, as only root can be two: their keys tell them apart"
fi
# The build may lie where other users cannot read.
cp "$(command -v sgpu-run)" "$shared/sgpu-run"
chmod 755 "$shared" "$shared/sgpu-run"

# The runner's key, and the owners whose batches it takes.
rm -rf ./*.jwk owners state tenants sealed.* response.* out.*
sgpu-seal keygen -q --x25519 -o runner.jwk
sgpu-seal pubkey -q -o runner.pub.jwk runner.jwk
for name in alice bob; do
	sgpu-seal keygen -q -o $name.jwk
	sgpu-seal keyinfo --owner $name.jwk >>owners
done
printf '61001 weight=3\n61002 weight=1\n' >tenants

mkdir "$shared/service"
chmod 755 "$shared/service"
sgpu-serve -q -k runner.jwk --owners owners --state "$PWD/state" --tenants tenants --everybody \
	--device "${DEVICE:-auto}" --socket "$shared/service/run.sock" &
server=$!
export SGPU_SOCKET="$shared/service/run.sock"
until sgpu-serve status >/dev/null 2>&1; do
	kill -0 $server 2>/dev/null || exit 3
	sleep 0.05
done
echo "serving at $SGPU_SOCKET for Alice and Bob: $users"

# A secret of 64 KiB, and how often each of its values comes, for its owner alone.
cat >job.json <<'JOB'
{ "version": 1, "manifest_id": "service",
  "segments": [
    { "segment_id": "secret", "data_location_client": "secret.u8", "sensitivity_level": "HIGH", "direction": "INPUT",
      "gpu_operation_id": "COUNT", "data_type_info": { "dtype": "u8", "shape": [65536] } },
    { "segment_id": "counts", "data_location_client": "counts.i32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
      "gpu_operation_id": "COUNT", "data_type_info": { "dtype": "i32", "shape": [16] } } ],
  "operations": [
    { "gpu_operation_id": "COUNT", "kernel": "histogram", "params": { "bins": 16, "min": 0, "max": 256 },
      "arguments": { "input": "secret", "output": "counts" } } ] }
JOB
head -c 65536 /dev/urandom >secret.u8
od -An -v -w1 -t u1 secret.u8 | awk '{ n[int($1 / 16)]++ } END { for (i = 0; i < 16; i++) print n[i] + 0 }' >right
sgpu-manifest pack job.json >packed
for i in 1 2 3 4 5 6 7 8; do
	for name in alice bob; do
		sgpu-seal seal -q -k $name.jwk -r runner.pub.jwk -o sealed.$name.$i packed
	done
done

# submit_all NAME USER: all at once.
submit_all() {
	pids=
	for i in 1 2 3 4 5 6 7 8; do
		as "$2" "$shared/sgpu-run" -q <"sealed.$1.$i" >"response.$1.$i" &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid" || exit 3
	done
}
submit_all alice 61001 &
alice=$!
submit_all bob 61002 &
bob=$!
wait $alice
wait $bob
for name in alice bob; do
	for i in 1 2 3 4 5 6 7 8; do
		sgpu-seal open -q -k $name.jwk -C "out.$name.$i" "response.$name.$i"
		od -An -v -w4 -t d4 "out.$name.$i/counts.i32" | tr -d ' ' | cmp - right
	done
	echo "$name: 8 batches, and each result is right"
done
if sgpu-seal open -q -k alice.jwk -C out.other response.bob.1 2>/dev/null; then
	echo "demo-service.sh: Alice has opened a result of Bob's" >&2
	exit 1
fi
echo "Alice cannot open Bob's"
sgpu-serve status

echo "a batch that comes again is refused:"
status=0
as 61001 "$shared/sgpu-run" -q <sealed.alice.1 2>&1 >response.again || status=$?
[ $status -eq 4 ] || exit 1
kill $server
wait $server || exit 1
server=
echo "the service has stopped"

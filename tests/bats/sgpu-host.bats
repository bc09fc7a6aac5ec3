#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2034,SC2153,SC2016 # bats sets stderr, serve.bash SERVER; a fake ssh expands its own
#
# sgpu host, and jobs on hosts: what is demanded of one, who is asked, and what is refused.

load quotes

setup() {
	SERVERS=()
	cd "$BATS_TEST_TMPDIR" || return 1
	export XDG_CONFIG_HOME=$PWD/config
	SOCKET=$XDG_RUNTIME_DIR/sgpu/run.sock
	[ -z "${SGPU_SANITIZE:-}" ] || skip "a build for a sanitizer can be debugged, which no policy of a build accepts"
	head -c 64 /dev/zero >a.u8
	sgpu run -q copy a.u8:u8:64 >first 2>/dev/null # makes the owner's key
	cp config/sgpu/owner.jwk owner.jwk
	evidence
	mkdir bin
}

# over_ssh: ssh executes on this machine; what it was given is in `asked`.
over_ssh() {
	cat >bin/ssh <<-'END'
		#!/usr/bin/env -S prlimit --nofile=256:256 sh
		printf '%s\n' "$*" >>asked
		[ "$1 $2" = "-T --" ] || exit 255
		[ ! -e down ] || exit 255
		[ ! -e hostile ] || . ./hostile
		case $4 in *quote*) ;; *) ulimit -S -f unlimited ;; esac # of the host's own programs
		exec sh -c "$4"
	END
	chmod +x bin/ssh
	PATH=$PWD/bin:$PATH
}

# add OPTION...: the host "lab", without a question.
add() {
	sgpu host add lab --socket "$SOCKET" --yes --roots ca.crt "$@"
}

run_there() {
	run --separate-stderr "$@" sgpu run --on lab threshold low=1 a.u8:u8:64
}

@test "a host is added after a look at what it proves, and then runs jobs" {
	requires pty
	serve_quotes
	run --separate-stderr -2 sgpu host add lab --socket "$SOCKET" --yes </dev/null
	assert_contains "$stderr" "--roots FILE"
	run --separate-stderr -2 setsid -w sgpu host add lab --socket "$SOCKET" --roots ca.crt
	assert_contains "$stderr" "there is no terminal to ask on"
	sgpu-measure keygen -q -o other.pem --authority other.crt
	run --separate-stderr -4 add --roots other.crt
	run -4 script -qec "sgpu host add lab --socket $SOCKET" /dev/null <<<n
	assert_contains "$output" "nothing was kept"
	[ -z "$(ls config/sgpu/hosts)" ]
	run -0 script -qec "sgpu host add lab --socket $SOCKET" /dev/null <<<y
	assert_contains "$output" "The operator of this host can read your data."
	thumbprint=$(openssl x509 -in ca.crt -outform der | sha256sum | cut -c1-64)
	assert_contains "$output" "authority  $thumbprint"
	assert_contains "$output" "Keep this as what is demanded of the host? [y/N]"
	run -0 sgpu host list
	assert_contains "$output" "lab"
	run -0 sgpu host show lab
	[ "${lines[0]}" = "The operator of this host can read your data." ]
	[ "${#lines[@]}" -eq 5 ]
	[ "$(stat -c %a config/sgpu/hosts/lab config/sgpu/hosts/lab/* | sort -u | tr '\n' ' ')" = "600 700 " ]
	run_there -0
	[ "$(tr -d ' \n' <<<"$output" | tr -d 0)" = "" ]
	[ -z "$stderr" ]
	run --separate-stderr -2 sgpu host add lab --socket "$SOCKET" --yes --roots ca.crt
	run -0 sgpu host remove lab
	run_there -2
	assert_contains "$stderr" "there is no host 'lab'"
	assert_no_file config/sgpu/hosts/lab
}

@test "a host that runs another build is refused with both digests, and one that is named by hand is not" {
	serve_quotes
	mkdir -p other/bin
	cp "$SGPU_BUILD/bin/sgpu-enclave" other/bin
	printf 'x' >>other/bin/sgpu-enclave
	digest() { sgpu-measure policy -q --build "$1" --owners any --at-least plain | jq -r '.runner.digests[0]'; }
	run --separate-stderr -4 add --build other
	assert_contains "$stderr" "$(digest "$SGPU_BUILD")"
	assert_contains "$stderr" "$(digest other)"
	assert_no_file config/sgpu/hosts/lab
	run --separate-stderr -4 add --build other --accept-digest "$(digest other)"
	run --separate-stderr -0 add --build other --accept-digest "$(digest "$SGPU_BUILD")"
	run_there -0
	# What was accepted by hand goes with the next update that does not name it.
	run --separate-stderr -4 sgpu host update lab --build other --yes
	run_there -0
}

@test "a host that changed is refused, until an update shows what changed" {
	serve_quotes
	run --separate-stderr -0 add
	run_there -0
	# The operator lets modules run.
	kill "$SERVER" && wait "$SERVER" || true
	serve_quotes --allow-modules
	run_there -4
	assert_contains "$stderr" "modules"
	[ -z "$output" ]
	kill "$SERVER" && wait "$SERVER" || true
	run --separate-stderr -3 sgpu host update lab --yes
	[[ $stderr != *authority* ]]
	# Another machine in its place, with another authority.
	sgpu-measure keygen -q -o ca2.pem --authority ca2.crt
	sgpu-measure keygen -q -o ek2.pem | sgpu-measure certify -k ca2.pem --certificate ca2.crt -o ek2.crt
	sgpu-measure keygen -q -o ak.pem.2 | sgpu-measure certify -k ek2.pem --certificate ek2.crt -o ak.crt.2
	cp ak.pem ak.pem.1 && cp ak.crt ak.crt.1
	cp ak.pem.2 ak.pem && cp ak.crt.2 ak.crt
	serve_quotes
	run_there -4
	[ -z "$output" ]
	[ "$(status tenants | awk '{ sum += $4 } END { print sum + 0 }')" -eq 0 ]
	run --separate-stderr -4 sgpu host update lab --yes
	assert_contains "$stderr" "$(openssl x509 -in ca2.crt -outform DER | sha256sum | cut -d ' ' -f 1); if"
	run_there -4
	run --separate-stderr -0 sgpu host update lab --yes --roots ca2.crt
	assert_contains "$output" "changes    none in the policy"
	run_there -0
	cp config/sgpu/hosts/lab/policy.json before
	run --separate-stderr -2 setsid -w sgpu host update lab --sessions any
	assert_contains "$output" 'changes    runner.sessions: "owners" -> "any"'
	assert_same before config/sgpu/hosts/lab/policy.json
	[ "$(ls config/sgpu/hosts)" = lab ]
	run --separate-stderr -0 sgpu host update lab --yes --sessions any
	assert_contains "$output" 'changes    runner.sessions: "owners" -> "any"'
	assert_contains "$output" "whoever reaches the server"
	run -0 jq -r .runner.sessions config/sgpu/hosts/lab/policy.json
	[ "$output" = any ]
}

@test "an update keeps what was demanded, and of two calls that add one name, one wins" {
	serve_quotes
	run --separate-stderr -0 add --sessions any
	sed -i 's/"at_least": "plain"/"at_least": "snp"/' config/sgpu/hosts/lab/policy.json
	run_there -4
	run --separate-stderr -4 sgpu run --json --on lab threshold low=1 a.u8:u8:64
	assert_contains "$(grep '"error"' <<<"$stderr" | jq -r .error.text)" "is 'plain', and 'at least snp' is wanted"
	run --separate-stderr -4 sgpu host update lab --yes
	run_there -4
	run --separate-stderr -0 sgpu host update lab --yes --at-least plain
	assert_contains "$output" 'changes    platform.at_least: "snp" -> "plain"'
	run -0 jq -r .runner.sessions config/sgpu/hosts/lab/policy.json
	[ "$output" = any ]
	touch config/sgpu/hosts/lab/policy.json~
	run --separate-stderr -0 sgpu host update lab --yes
	run_there -0
	rm -r config/sgpu/hosts/lab config/sgpu/hosts/.new.* # with what is not of sgpu
	requires pty
	mkfifo one
	script -qec "sgpu host add lab --socket $SOCKET" /dev/null <one >said 2>&1 3>&- &
	exec 9>one
	wait_for grep -q 'y/N' said
	run --separate-stderr -0 add --sessions any
	echo y >&9
	exec 9>&-
	wait $! && false
	run -0 jq -r .runner.sessions config/sgpu/hosts/lab/policy.json
	[ "$output" = any ]
	[ "$(ls -A config/sgpu/hosts)" = lab ]
}

@test "a machine without ssh is not taken for a host that says so" {
	run --separate-stderr -3 env PATH="$PWD/bin" "$SGPU_BUILD/bin/sgpu" host add lab gpu7.example --yes --roots ca.crt
	[ "${stderr_lines[0]}" = "sgpu: error: there is no 'ssh' on this machine" ]
	assert_contains "$stderr" "openssh-client"
}

@test "over ssh, the host's programs are asked, and nothing that they say is believed" {
	over_ssh
	serve_quotes
	run --separate-stderr -0 sgpu host add lab user@gpu7.example --socket "$SOCKET" --yes --roots ca.crt
	run_there -0
	run -0 grep -c "^-T -- user@gpu7.example sgpu-serve quote --json --nonce [0-9a-f]\{64\} --socket '$SOCKET'\$" asked
	[ "$output" -eq 2 ]
	run -0 grep -c "^-T -- user@gpu7.example sgpu-run -q --json --socket '$SOCKET'\$" asked
	# No nonce twice.
	[ "$(grep -o 'nonce [0-9a-f]*' asked | sort | uniq -d)" = "" ]
	# A host that repeats an old quote, and one that answers with what it was sent, or with nothing.
	sgpu-serve quote --nonce 00112233445566778899aabbccddeeff -o old
	echo 'case $4 in *quote*) cat old; exit 0 ;; esac' >hostile
	run_there -4
	assert_contains "$stderr" "nonce"
	echo 'case $4 in sgpu-run*) cat; exit 0 ;; esac' >hostile
	run_there -1
	[ -z "$output" ]
	echo 'case $4 in sgpu-run*) cat >sent; exit 0 ;; esac' >hostile
	run --separate-stderr sgpu run --on lab threshold low=1 a.u8:u8:64
	[ "$status" -ne 0 ]
	[ -z "$output" ]
	# Another job's response.
	rm hostile
	echo 'case $4 in sgpu-run*) sgpu-run <sent 2>/dev/null; exit ;; esac' >hostile
	run_there -4
	[ -z "$output" ]
	# What it says is shown as its words, and cannot move the cursor; what it ends with is not believed either.
	printf 'case $4 in *quote*) printf "\\033[8mauthority  of the host\\r\\n" >&2 ;; esac\n' >hostile
	run_there -0
	[ "$stderr" = 'sgpu: warning: the host says: \x1b[8mauthority  of the host' ]
	for status in 1 5 141 200; do
		echo "case \$4 in sgpu-run*) sh -c \"\$4\"; exit $status ;; esac" >hostile
		run_there -0
		echo "case \$4 in sgpu-run*) cat >/dev/null; exit $status ;; esac" >hostile
		run --separate-stderr sgpu run --on lab threshold low=1 a.u8:u8:64
		[ "$status" -ge 1 ]
		[ "$status" -le 6 ]
		[ -n "$stderr" ]
		[ -z "$output" ]
	done
	# One that never answers ends with the limit, and one that talks too much fills no memory.
	echo 'case $4 in sgpu-run*) cat >/dev/null; sleep 60 ;; esac' >hostile
	before=$(date +%s)
	run --separate-stderr sgpu run --on lab --timeout 1 threshold low=1 a.u8:u8:64
	[ "$status" -eq 3 ]
	[ $(($(date +%s) - before)) -lt 30 ]
	echo 'case $4 in *quote*) head -c 100000000 /dev/zero; exit 0 ;; esac' >hostile
	run_there -1
	rm hostile
	: >down
	run_there -3
	run --separate-stderr -2 sgpu host add bad -oProxyCommand=x --yes --roots ca.crt
	run --separate-stderr -2 sgpu host add bad 'a b' --yes --roots ca.crt
	run --separate-stderr -2 sgpu host add ../bad host --yes --roots ca.crt
	rm asked down
	run --separate-stderr -2 sgpu host add bad -- -v
	run --separate-stderr -2 sgpu host add bad "lab;touch mark"
	assert_no_file asked
	run --separate-stderr -3 sgpu host add bad lab --socket "/none'; touch mark; '\$(touch mark)"
	grep -q ' lab ' asked
	assert_no_file mark
}

@test "a host that is down is waited for, one that refuses is not" {
	over_ssh
	serve_quotes
	run --separate-stderr -0 sgpu host add lab gpu7.example --socket "$SOCKET" --yes --roots ca.crt
	: >down
	(sleep 1.5 && rm down) &
	run --separate-stderr -0 sgpu run --wait 30 --on lab threshold low=1 a.u8:u8:64
	assert_contains "$stderr" "trying again"
	kill "$SERVER" && wait "$SERVER" || true
	serve_quotes --allow-modules
	before=$(date +%s)
	run --separate-stderr -4 sgpu run --wait 30 --on lab threshold low=1 a.u8:u8:64
	[ $(($(date +%s) - before)) -lt 10 ]
}

@test "an owner that the host does not know gets the line for its file" {
	sgpu-seal keygen -q -o stranger.jwk
	sgpu-seal keyinfo --owner -o owners stranger.jwk
	serve_quotes
	run --separate-stderr -0 add
	assert_contains "$stderr" "does not take your batches yet"
	[ "${lines[-1]}" = "$(sgpu-seal keyinfo --owner owner.jwk)" ]
	run_there -4
	sgpu-seal keyinfo --owner owner.jwk >>owners
	sgpu-serve reload
	knows_me() { sgpu-serve quote --nonce "$NONCE" | sgpu-measure inspect --json | grep -qFe "$(tail -n 1 owners)"; }
	wait_for knows_me
	run --separate-stderr -0 sgpu host update lab --yes
	run_there -0
}

@test "files of a host that others could have changed are refused" {
	serve_quotes
	run --separate-stderr -0 add
	local path
	for path in . hosts hosts/lab hosts/lab/policy.json hosts/lab/roots.crt hosts/lab/host.json; do
		chmod go+w "config/sgpu/$path"
		run_there -4
		[ -z "$output" ]
		chmod go-w "config/sgpu/$path"
	done
	requires root
	chown 65534 config/sgpu/hosts/lab/host.json
	run_there -4
	chown 0 config/sgpu/hosts/lab/host.json
	run_there -0
}

@test "sgpu pipe runs on a host, too" {
	requires python3
	over_ssh
	serve_quotes
	run --separate-stderr -0 sgpu host add lab gpu7.example --socket "$SOCKET" --yes --roots ca.crt
	cat >client.py <<-'END'
		import json, os, resource, struct, subprocess, sys
		p = subprocess.Popen(["sgpu", "pipe", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
		def hear():
		    magic, n, m = struct.unpack("<4sIQ", p.stdout.read(16))
		    return json.loads(p.stdout.read(n)), p.stdout.read(m)
		assert hear()[0]["ready"]
		job = json.dumps({"version": 1, "manifest_id": "t", "segments": [
		    {"segment_id": "i", "sensitivity_level": "HIGH", "direction": "INPUT", "data_type_info": {"dtype": "u8", "shape": [5]}},
		    {"segment_id": "o", "sensitivity_level": "HIGH", "direction": "OUTPUT"}],
		    "operations": [{"gpu_operation_id": "T", "kernel": "threshold", "params": {"low": 3}, "arguments": {"input": "i", "output": "o"}}]}).encode()
		for data in (bytes([1, 2, 3, 4, 5]), bytes([5, 4, 3, 2, 1])):
		    p.stdin.write(struct.pack("<4sIQ", b"sgpu", len(job), len(data)) + job + data)
		    p.stdin.flush()
		    answer, out = hear()
		    assert out == bytes(x >= 3 for x in data), (answer, out)
		if "FULL" in os.environ: # no descriptor is left for the batch
		    resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (5, 256))
		    open("full", "w").close()
		    p.stdin.write(2 * (struct.pack("<4sIQ", b"sgpu", len(job), len(data)) + job + data))
		    p.stdin.close()
		    assert "error" in hear()[0]
		p.stdin.close()
		sys.exit(p.wait())
	END
	run -0 python3 client.py --on lab
	run -0 python3 client.py --device cpu
	echo 'case $4 in *sgpu-run*) [ ! -e full ] || cat >stolen ;; esac' >hostile
	FULL=1 run --separate-stderr -0 python3 client.py --on lab
	assert_contains "$stderr" "cannot open what 'ssh' is to read"
	assert_no_file stolen
	kill "$SERVER" && wait "$SERVER" || true
	run ! python3 client.py --on lab
}

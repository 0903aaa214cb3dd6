#!/usr/bin/env bash
# Reads and writes images on an S3 server that checks signatures (moto, in a virtual environment of its own).
#
# usage: test-s3.sh      environment: SHALE names the command, CARGO_TARGET_DIR as for cargo
# Installs moto below the target folder. Ends with status 1 if an answer is not as expected.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh python3 curl
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
shale=$(realpath "${SHALE:-$target/debug/shale}")
venv=$target/s3-venv
python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'moto[server,s3]>=5'

work=$(mktemp -d)
server=
proxy=
trap '[ -z "$server" ] || kill "$server"; [ -z "$proxy" ] || kill "$proxy"; rm -rf "$work"' EXIT
image=testdata/images/0.3-tiny.shale
mkfifo "$work/ready"
# The first five calls make a user, its key and the object; every later one has to be signed.
INITIAL_NO_AUTH_ACTION_COUNT=5 "$venv/bin/python" - "$image" > "$work/ready" 2> "$work/log" <<'PYTHON' &
import signal, sys
import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
where = dict(endpoint_url=f"http://{host}:{port}", region_name="us-east-1", aws_access_key_id="x",
             aws_secret_access_key="x")
iam, s3 = boto3.client("iam", **where), boto3.client("s3", **where)
iam.create_user(UserName="reader")
key = iam.create_access_key(UserName="reader")["AccessKey"]
policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'
iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=policy)
s3.create_bucket(Bucket="bucket")
with open(sys.argv[1], "rb") as image:
    s3.put_object(Bucket="bucket", Key="a dir/x+y.shale", Body=image.read())
print(where["endpoint_url"], key["AccessKeyId"], key["SecretAccessKey"], flush=True)
signal.pause()
PYTHON
server=$!
read -r endpoint id secret < "$work/ready" || { cat "$work/log" >&2; exit 1; }

export HOME=$work XDG_CACHE_HOME=$work/cache AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN http_proxy HTTP_PROXY all_proxy ALL_PROXY
url="s3://bucket/a dir/x+y.shale"
failed=0

store=s3
. scripts/expect.sh

"$shale" ls -lR "$image" > "$work/near"
with_keys() { env AWS_ACCESS_KEY_ID="$id" AWS_SECRET_ACCESS_KEY="$secret" "$shale" --endpoint "$endpoint" "$@"; }
with_keys ls -lR "$url" > "$work/far" || failed=1
cmp "$work/near" "$work/far" || failed=1
expect "everything is verified" 0 "" with_keys check "$url"
expect "a key that is wrong" 1 SignatureDoesNotMatch \
  env AWS_ACCESS_KEY_ID="$id" AWS_SECRET_ACCESS_KEY=wrong "$shale" --endpoint "$endpoint" ls "$url"
expect "a key that nobody has" 1 InvalidAccessKeyId \
  env AWS_ACCESS_KEY_ID=nobody AWS_SECRET_ACCESS_KEY=x "$shale" --endpoint "$endpoint" ls "$url"
expect "no signature" 1 "leave out --no-sign-request" "$shale" --endpoint "$endpoint" --no-sign-request ls "$url"
expect "no credentials" 1 "set AWS_PROFILE" "$shale" --endpoint "$endpoint" ls "$url"
expect "no object" 1 NoSuchKey with_keys ls s3://bucket/none
expect "no bucket" 1 NoSuchBucket with_keys ls s3://no-such-bucket/none
mkdir "$work/.aws"
printf '[default]\nendpoint_url = %s\n[profile reader]\nregion = us-east-1\nendpoint_url = %s\n' \
  "$endpoint" "$endpoint" > "$work/.aws/config"
printf '[reader]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$id" "$secret" > "$work/.aws/credentials"
expect "a profile" 0 "" env AWS_PROFILE=reader "$shale" --cache-size 0 ls "$url"
expect "a profile that is missing" 1 "no profile other" env AWS_PROFILE=other "$shale" ls "$url"

# Writing: one request, then parts, then an append that copies the old object inside of the store.
export TMPDIR=$work/temp
mkdir "$work/tree" "$TMPDIR"
seq 1 50000 > "$work/tree/numbers"
head -c 20000000 /dev/urandom > "$work/noise"
# s3 CODE: runs Python with a client `s3` of the server, without the command.
s3() {
  AWS_ACCESS_KEY_ID=$id AWS_SECRET_ACCESS_KEY=$secret "$venv/bin/python" -c "import boto3
s3 = boto3.client('s3', endpoint_url='$endpoint', region_name='us-east-1')
$1"
}
unfinished() { s3 "print(len(s3.list_multipart_uploads(Bucket='bucket').get('Uploads', [])), 'unfinished')"; }
# same_tree URL: the object holds the tree, and its bytes are those of an image.
same_tree() { with_keys --cache-size 0 verify --against "$work/tree" "$1"; }

new=s3://bucket/new.shale
expect "a short image is written" 0 verified with_keys create "$work/tree" -o "$new"
expect "and read" 0 "" same_tree "$new"
expect "an object is not replaced" 1 "--force" with_keys create "$work/tree" -o "$new"
expect "unless that is asked for" 0 verified with_keys create "$work/tree" -o "$new" --force
seq 1 60000 > "$work/tree/more"
expect "a short image grows" 0 "snapshot #1" with_keys append "$new" "$work/tree"
expect "and has the new tree" 0 "" same_tree "$new"
cp "$work/noise" "$work/tree/noise"
long="s3://bucket/a dir/lo+ng.shale"
expect "a long image is written in parts" 0 verified with_keys create "$work/tree" -o "$long"
expect "and read" 0 "" same_tree "$long"
expect "it is not replaced" 1 "--force" with_keys create "$work/tree" -o "$long"
before=$(s3 "print(s3.head_object(Bucket='bucket', Key='a dir/lo+ng.shale')['ContentLength'])")
seq 1 70000 > "$work/tree/still more"
expect "a long image grows" 0 "snapshot #1" with_keys append "$long" "$work/tree"
expect "and has the new tree" 0 "" same_tree "$long"
seq 1 80000 > "$work/tree/even more"
# The first append reads all of the image and leaves an index; the next one reads that.
expect "a long image grows again" 0 "snapshot #2" with_keys --cache-size 0 append -v "$long" "$work/tree"
grep -qE '[0-9] (B|KiB) received' "$work/out" || fail "the append read too much: $(cat "$work/out")"
expect "and is whole" 0 "no damage" with_keys --cache-size 0 check "$long"
after=$(s3 "print(s3.head_object(Bucket='bucket', Key='a dir/lo+ng.shale')['ContentLength'])")
[ "$before" -lt "$after" ] || fail "the object did not grow"
expect "nothing is appended to nothing" 1 NoSuchKey with_keys append s3://bucket/none "$work/tree"
expect "a bucket that is missing" 1 NoSuchBucket with_keys create "$work/tree" -o s3://no-such-bucket/x
expect "a server that cannot be written to" 1 "upload it with" "$shale" create "$work/tree" -o http://127.0.0.1:1/x
expect "an encrypted image is written" 0 verified with_keys create "$work/tree" -o s3://bucket/x.shale.age \
  --age age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj
expect "and not read without a key" 1 "no key was given" with_keys ls s3://bucket/x.shale.age
with_keys create -q "$work/tree" -o s3://bucket/parity --parity 5%
expect "an append of parity" 1 "--drop-parity" with_keys append s3://bucket/parity "$work/tree"
expect "an append without it" 0 "snapshot #1" with_keys append s3://bucket/parity "$work/tree" --drop-parity
expect "an append to an encrypted image" 2 encrypted with_keys append s3://bucket/x.shale.age "$work/tree"
expect "a copy inside of the store" 0 "" with_keys compact "$long" -o s3://bucket/compact
expect "and read" 0 "no damage" with_keys check s3://bucket/compact
expect "a thin image" 2 "to a file only" with_keys create "$work/tree" --base "$long" -o s3://bucket/thin
expect "what is packed must be there" 1 "none" with_keys create "$work/none" -o s3://bucket/x
expect "no upload is left over" 0 "0 unfinished" unfinished

# What networks and other users do meanwhile.
mkfifo "$work/proxied"
mkdir "$work/proxy"
AWS_ACCESS_KEY_ID=$id AWS_SECRET_ACCESS_KEY=$secret "$venv/bin/python" scripts/store-proxy.py s3 "$endpoint" \
  "$work/proxy" > "$work/proxied" 2>> "$work/log" &
proxy=$!
read -r between < "$work/proxied" || { cat "$work/log" >&2; exit 1; }
through() { env AWS_ACCESS_KEY_ID="$id" AWS_SECRET_ACCESS_KEY="$secret" "$shale" --endpoint "$between" "$@"; }
# meanwhile MODE KEY: what the proxy does next. What it was told before has to have happened.
meanwhile() {
  [ ! -e "$work/proxy/mode" ] || fail "this did not happen: $(cat "$work/proxy/mode")"
  printf %s "$2" > "$work/proxy/key"
  printf %s "$1" > "$work/proxy/mode"
}
control() { curl --silent --fail --noproxy '*' "$between/-/$1"; }
absent() { expect "$1: no object" 1 NoSuchKey with_keys ls "$2"; }
is_theirs() { s3 "print(s3.get_object(Bucket='bucket', Key='$1')['Body'].read().decode())"; }

mkdir "$work/short"
echo short > "$work/short/file"
meanwhile lost ""
expect "a lost answer to a short upload" 0 verified through create "$work/short" -o s3://bucket/lost-short
meanwhile lost ""
expect "a lost answer to a long upload" 0 verified through create "$work/tree" -o s3://bucket/lost-long
expect "and the object" 0 "" same_tree s3://bucket/lost-long
meanwhile taken taken-short
expect "another short object was faster" 1 "--force" through create "$work/short" -o s3://bucket/taken-short
expect "and stays" 0 "of somebody else" is_theirs taken-short
meanwhile taken taken-long
expect "another long object was faster" 1 "--force" through create "$work/tree" -o s3://bucket/taken-long
expect "and stays" 0 "of somebody else" is_theirs taken-long
with_keys create -q "$work/tree" -o s3://bucket/replaced
seq 1 1000 > "$work/tree/last"
meanwhile replaced replaced
expect "a race of two appends" 1 "changed by somebody else" through append s3://bucket/replaced "$work/tree"
expect "and the other object stays" 0 "of somebody else" is_theirs replaced
meanwhile fail ""
expect "a store that fails" 1 "status 500" through create "$work/tree" -o s3://bucket/failed
rm -f "$work/proxy/mode"
absent "a store that fails" s3://bucket/failed
expect "no upload is left over after errors" 0 "0 unfinished" unfinished

# ended SIGNAL: the command gets a signal while a part is on its way, and leaves nothing.
ended() {
  local status=0 pid
  control stall
  env --default-signal=INT,TERM AWS_ACCESS_KEY_ID="$id" AWS_SECRET_ACCESS_KEY="$secret" \
    "$shale" --endpoint "$between" create "$work/tree" -o s3://bucket/ended > "$work/out" 2>&1 &
  pid=$!
  control stalled || fail "SIG$1: no part was sent"
  kill -s "$1" "$pid"
  control go
  wait "$pid" || status=$?
  [ "$status" -eq 130 ] || fail "SIG$1: exit code $status: $(cat "$work/out")"
  absent "SIG$1" s3://bucket/ended
  expect "no upload is left over after SIG$1" 0 "0 unfinished" unfinished
}
ended INT
ended TERM
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files stay: $(ls -A "$TMPDIR")"
[ "$failed" -eq 0 ] && echo "s3: read and written with signatures that the server checked, and refused without"
exit "$failed"

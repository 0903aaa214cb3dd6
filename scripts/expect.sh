# Functions for scripts that test the command; they run `.` on this file. They take the name of what is tested from
# `store`, keep what is printed in the folder `work`, and set `failed` to 1.

# expect NAME CODE TEXT COMMAND...: the exit code, and a text in what is printed.
expect() {
  local name=$1 code=$2 text=$3 status=0
  shift 3
  "$@" > "$work/out" 2>&1 || status=$?
  if [ "$status" -ne "$code" ] || ! grep -qF -- "$text" "$work/out"; then
    echo "$store: $name: exit code $status, expected $code and \`$text\`:"
    # It may be an image.
    head -c 2000 "$work/out" | tr -cd '\11\12\40-\176'
    failed=1
  fi
}

# fail TEXT: says what is wrong.
fail() {
  echo "$store: $1"
  failed=1
}

#!/usr/bin/env bash
# Fails, with the difference, if what is committed is not what would be generated.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
hack/generate.sh "$fresh"
stale=0
for path in proto docs/cli docs/job-file.md; do
	diff -ru "$path" "$fresh/$path" || stale=1
done
if [ "$stale" = 1 ]; then
	echo "generated files are out of date: run make generate and commit what it changes" >&2
	exit 1
fi

#!/usr/bin/env bash
# Writes everything that is generated and committed below a folder: the code of proto/,
# docs/cli and docs/job-file.md. Without an argument that is this repository.
set -euo pipefail
cd "$(dirname "$0")/.."
to=$(realpath "${1:-.}")
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

go build -o "$tools/" ./hack/protogen # the rest may not compile before it has run
if [ "$to" != "$PWD" ]; then
	mkdir -p "$to/proto/ohm/v1"
	cp go.mod go.sum "$to/" # in which protogen finds its plugins
	cp proto/ohm/v1/*.proto "$to/proto/ohm/v1/"
fi
(cd "$to" && "$tools/protogen")
go build -o "$tools/" ./hack/jobfiledocs ./cmd/ohm
mkdir -p "$to/docs/cli"
"$tools/ohm" docs "$to/docs/cli"
"$tools/jobfiledocs" >"$to/docs/job-file.md"

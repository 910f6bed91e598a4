#!/usr/bin/env bash
# A batch pipeline: an array with bad elements, a step that follows it, a gang that follows that, and
# a job that runs by a schedule. `make demo-pipeline` builds bin/ohm and calls this. It exits with
# 0 only if all of it went as it says.
set -euo pipefail
cd "$(dirname "$0")/../.."
source hack/demo/cell.sh

start_cell --keep-logs 1000 # of all attempts of the array: a node keeps those of the newest 100 if nobody says otherwise

title "By a schedule: a job each night"
show ohm run examples/pipeline/nightly.yaml
title "The same for those who cannot wait: each minute"
sed 's/^job: nightly/job: minutely/; s/30 2 \* \* \*/* * * * */' examples/pipeline/nightly.yaml >"$dir/minutely.yaml"
show ohm run "$dir/minutely.yaml"

title "Three steps, in any order: each waits for the one before"
show ohm run examples/pipeline/train.yaml examples/pipeline/reduce.yaml examples/pipeline/extract.yaml
show ohm status
within 120 "extract has ended" sh -c "bin/ohm status extract -o json | grep -Eq '\"state\":\"(Succeeded|Failed)\"'"

title "The array: 197 of 200, each bad element after two attempts"
show ohm status extract
ohm status extract -o json | grep -q '"state":"Succeeded"' || fail "extract should have succeeded"
ohm status extract -o json | grep -q '"succeeded":197,"failed":3' || fail "not 3 of 200 have failed"
for n in 17 99 163; do
  [[ $(ohm task list extract | grep "^extract/part/$n ") == *"Failed"*"exited 65"* ]] || fail "element $n is not shown to have failed"
  said=$(ohm logs "extract/part/$n" --attempt 2 2>&1) || fail "element $n has no second attempt: $said"
  [[ $said == *"element $n is bad"* ]] || fail "element $n said in its second attempt: $said"
done
show ohm logs extract/part/17 --attempt 2

title "What followed it"
within 60 "the gang has ended" sh -c "bin/ohm status train-parts -o json | grep -q '\"state\":\"Succeeded\"'"
show ohm logs reduce
for n in 0 1 2; do
  ohm logs "train-parts/worker/$n" | grep -q "rank $n of 3" || fail "rank $n said something else"
done
show ohm logs train-parts/worker/1

title "The bad elements once more, and nothing else"
show ohm run --again extract --only-failed
within 60 "the second run has ended" sh -c "bin/ohm job history extract -o json | grep -q '\"run\":2'"
within 60 "the second run has ended" sh -c "bin/ohm status extract -o json | grep -Eq '\"state\":\"(Succeeded|Failed)\"'"
show ohm job history extract

title "And a minute has passed"
within 90 "a run by schedule" sh -c "bin/ohm job history minutely -o json | grep -q '\"state\":\"Succeeded\"'"
show ohm job history minutely
show ohm logs minutely

audit_cell
end_cell 0

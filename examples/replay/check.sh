#!/bin/sh
# Holds an agent against every recording of a directory, and writes what came of each as JUnit XML.
#
#   check.sh RECORDINGS RESULTS COMMAND...
#
# Ends with 0 if nothing drifted, 1 if something did, 2 if that is unknown.
set -u
recordings=$1 results=$2
shift 2
mkdir -p "$results"
worst=0 found=0
for recording in "$recordings"/*.recording; do
    [ -f "$recording" ] || continue
    found=1
    name=$(basename "$recording" .recording)
    "${WICKETGATE:-wicketgate}" replay "$recording" --report --junit "$results/$name.xml" -- "$@"
    code=$?
    [ "$code" -le "$worst" ] || worst=$code
done
if [ "$found" -eq 0 ]; then
    echo "no recording in $recordings" >&2
    exit 2
fi
exit "$worst"

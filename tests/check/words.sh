#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Comments, messages and documents use the field's words. words.sh SOURCE
set -euo pipefail
cd "$1"
words="tells?|told|looks?|stays?|hogs?|room|stood|likes|opinions?"
# For these there is a noun: preemptor, recurrence, hang.
phrases="had (the|its|a rank's) CPUs?|CPU had|others had|came back|so it is with|stand(s|ing)? still"
# A stored kind keeps its former word; Python's file.tell() is a name of others.
allowed='\bhog\b.*preemptor|\\?"hog\\?"|^man/tracectl\.1:[0-9]+:\.Ql hog|\.tell\(\)'
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	files=$(git ls-files)
else
	files=$(find . -type f -not -path './build*' | sed 's|^\./||')
fi
found=$(grep -vE '^LICENSE|^tests/check/words\.sh$|\.(gz|xz)$|^tests/(fuzz/corpus|traces/data|kineto/data)/' <<<"$files" |
	xargs -d '\n' grep -InwiE "$words|$phrases" -- | grep -vE "$allowed" || true)
[ -z "$found" ] || { cut -c1-200 <<<"$found"; echo "words.sh: the glossary does not define these words: \"reported\" or \"shown\" for told, \"compares\" or \"is\" for looks, \"preempted by\" for who had the CPU"; exit 1; }

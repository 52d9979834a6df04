#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/gauges.md is what the sources' tables give, and its bound is the sum of their rows. gauges.sh SOURCE BUILD
set -euo pipefail
cd "$1"
"$2/docs/gauges-doc" | diff docs/gauges.md - || {
	echo "docs/gauges.md is not what daemon/gauges says: cmake --build $2 --target gauges-md"
	exit 1
}
rows=$(sed -n 's/.*At most \([0-9]*\) rows a second.*/\1/p' docs/gauges.md | paste -sd+ | bc)
for file in docs/gauges.md daemon/gauges/gauges.h; do
	grep -qE "\b$rows rows a second" "$file" || {
		echo "$file does not say that all sources together store $rows rows a second"
		exit 1
	}
done

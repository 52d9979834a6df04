# SPDX-License-Identifier: Apache-2.0
# Samples (benchmark, case, unit, pair, value; separated by tabs) to a table, or to JSON with -v json=1. The first case of a
# benchmark is its base: the ratio column is the median over pairs of case / base of the same pair.
BEGIN { FS = "\t" }
NF == 5 {
	id = $1 FS $2
	if (!(id in samples)) {
		order[++rows] = id; name[id] = $1; what[id] = $2; unit[id] = $3
		if (!($1 in base)) base[$1] = id
	}
	value[id, ++samples[id]] = $5 + 0
	of_pair[id, $4] = $5 + 0
	pair[id, samples[id]] = $4
}
function sorted(list, n,	i, j, x) {
	for (i = 2; i <= n; i++) {
		x = list[i]
		for (j = i - 1; j > 0 && list[j] > x; j--) list[j + 1] = list[j]
		list[j + 1] = x
	}
}
function median(list, n) {
	return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
END {
	if (json) printf "["
	else printf "%-22s %-18s %12s %12s %12s %-10s %8s %5s\n", "benchmark", "case", "median", "min", "max", "unit", "ratio", "pairs"
	for (r = 1; r <= rows; r++) {
		id = order[r]; n = samples[id]; ratios = 0
		for (i = 1; i <= n; i++) {
			v[i] = value[id, i]
			b = of_pair[base[name[id]], pair[id, i]]
			if (b > 0) q[++ratios] = v[i] / b
		}
		sorted(v, n); sorted(q, ratios)
		ratio = ratios ? median(q, ratios) : 0
		if (json)
			printf "%s\n{\"benchmark\":\"%s\",\"case\":\"%s\",\"unit\":\"%s\",\"median\":%.3f,\"min\":%.3f,\"max\":%.3f,\"ratio\":%.4f,\"pairs\":%d}", \
				(r > 1 ? "," : ""), name[id], what[id], unit[id], median(v, n), v[1], v[n], ratio, n
		else
			printf "%-22s %-18s %12.1f %12.1f %12.1f %-10s %8.3f %5d\n", name[id], what[id], median(v, n), v[1], v[n], unit[id], ratio, n
	}
	if (json) printf "\n]\n"
}

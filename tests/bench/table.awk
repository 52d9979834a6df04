# SPDX-License-Identifier: Apache-2.0
# Samples (benchmark, case, unit, pair, value; separated by tabs) to a table, or to JSON with -v json=1. The first case of a
# benchmark is its base: the ratio columns are median, minimum and maximum over pairs of case / base of the same pair.
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
# All cases of a benchmark one after the other, in the order of their first samples.
function group(	i, j, k, moved) {
	for (i = 1; i <= rows; i++)
		for (j = i; j <= rows; j++)
			if (name[order[j]] == name[order[i]] && !(order[j] in done)) {
				moved[++k] = order[j]; done[order[j]] = 1
			}
	for (i = 1; i <= rows; i++) order[i] = moved[i]
}
END {
	if (json) printf "["
	else
		printf "%-26s %-18s %11s %11s %11s %-10s %7s %7s %7s %5s\n", "benchmark", "case", "median", "min", "max", "unit", "ratio", "min", "max", "pairs"
	group()
	for (r = 1; r <= rows; r++) {
		id = order[r]; n = samples[id]; ratios = 0
		for (i = 1; i <= n; i++) {
			v[i] = value[id, i]
			b = of_pair[base[name[id]], pair[id, i]]
			if (b > 0) q[++ratios] = v[i] / b
		}
		sorted(v, n); sorted(q, ratios)
		ratio = ratios ? median(q, ratios) : 0
		low = ratios ? q[1] : 0
		high = ratios ? q[ratios] : 0
		if (!json && r > 1 && name[id] != name[order[r - 1]]) print ""
		if (json)
			printf "%s\n{\"benchmark\":\"%s\",\"case\":\"%s\",\"unit\":\"%s\",\"median\":%.3f,\"min\":%.3f,\"max\":%.3f,\"ratio\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f,\"pairs\":%d}", \
				(r > 1 ? "," : ""), name[id], what[id], unit[id], median(v, n), v[1], v[n], ratio, low, high, n
		else
			printf "%-26s %-18s %11.1f %11.1f %11.1f %-10s %7.3f %7.3f %7.3f %5d\n", name[id], what[id], median(v, n), v[1], v[n], unit[id], ratio, low, high, n
	}
	if (json) printf "\n]\n"
}

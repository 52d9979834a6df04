# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# debian_mirror: prints the machine's Debian mirror, or debootstrap's default.
debian_mirror() {
	local from
	from=$({
		sed -n 's/^URIs:[[:space:]]*//p' /etc/apt/sources.list.d/*.sources
		sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\).*/\2/p' /etc/apt/sources.list \
			/etc/apt/sources.list.d/*.list
		sed -n 's/^DEF_\(HTTPS_\)\?MIRROR="\(.*\)"/\2/p' "$(command -v debootstrap)"
	} 2>/dev/null | tr ' ' '\n' | grep -E '^https?://.*/debian/?$' | head -1)
	echo "${from%/}"
}

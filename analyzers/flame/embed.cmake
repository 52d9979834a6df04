# SPDX-License-Identifier: Apache-2.0
# A file as a C array with a terminating zero: cmake -DFILE=page.js -DNAME=flame_page_js -DOUT=page_js.c -P embed.cmake
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")

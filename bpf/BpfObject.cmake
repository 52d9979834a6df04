# bpf_object(NAME.bpf.c): clang compiles it, bpftool generates NAME.skel.h; sets bpf_object_target to the target to depend
# on. Independent of the build host's kernel: types come from core.h.
find_program(CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(BPF_TARGET_ARCH arm64)
else()
    set(BPF_TARGET_ARCH x86)
endif()
pkg_get_variable(LIBBPF_INCLUDE libbpf includedir)
file(GLOB BPF_HEADERS CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.h)

function(bpf_object source)
    get_filename_component(name ${source} NAME_WLE)
    get_filename_component(name ${name} NAME_WLE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o)
    set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/${name}.skel.h)
    # bpftool writes to stdout even on failure: move the header into place only after success.
    add_custom_command(
        OUTPUT ${skeleton}
        COMMAND ${CLANG} -g -O2 -target bpf -D__TARGET_ARCH_${BPF_TARGET_ARCH} -Wall -Wextra
                $<$<BOOL:${RANKTRACE_WERROR}>:-Werror>
                -I${CMAKE_SOURCE_DIR} -idirafter ${LIBBPF_INCLUDE}
                -idirafter ${CMAKE_SYSROOT}/usr/include/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu -idirafter ${CMAKE_SYSROOT}/usr/include
                -c ${source} -o ${object}
        COMMAND ${BPFTOOL} gen skeleton ${object} name ${name}_bpf > ${skeleton}.tmp
        COMMAND ${CMAKE_COMMAND} -E rename ${skeleton}.tmp ${skeleton}
        DEPENDS ${source} ${BPF_HEADERS}
        COMMENT "BPF object ${name}"
        COMMAND_EXPAND_LISTS
        VERBATIM)
    add_custom_target(bpf_${name} DEPENDS ${skeleton})
    set(bpf_object_target bpf_${name} PARENT_SCOPE)
endfunction()

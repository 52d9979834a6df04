# SPDX-License-Identifier: Apache-2.0
# cmake -DCOMPILER=CC -DOUTPUT=FILE -P syscall_list.cmake: the macro SYSCALL_LIST, one SYSCALL(name) for each number that
# <asm/unistd.h> defines. The compiler knows which header that is.
file(WRITE ${OUTPUT}.c "#include <asm/unistd.h>\n")
execute_process(COMMAND ${COMPILER} -E -dM ${OUTPUT}.c OUTPUT_VARIABLE macros COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "#define __NR_[a-z0-9_]+ " macros "${macros}")
list(TRANSFORM macros REPLACE "#define __NR_([a-z0-9_]+) " "\\1")
list(REMOVE_ITEM macros syscalls arch_specific_syscall) # numbers of no call
list(SORT macros)
list(TRANSFORM macros REPLACE "(.+)" " \\\\\n\tSYSCALL(\\1)")
list(JOIN macros "" macros)
file(WRITE ${OUTPUT} "#define SYSCALL_LIST${macros}\n")

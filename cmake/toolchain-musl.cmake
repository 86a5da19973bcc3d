# SPDX-License-Identifier: MIT
#
# Compiling for musl in place of glibc, on x86_64, with Debian's musl-gcc: C only, because Debian has
# no C++ library for musl. The programs run on this machine; scripts/setup cross installs what they
# need.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_ASM_COMPILER musl-gcc)
# musl-gcc does not look into /usr/include, which has the headers of glibc beside those of the
# kernel.
set(kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
file(MAKE_DIRECTORY ${kernel_headers})
foreach(folder IN ITEMS linux asm-generic x86_64-linux-gnu/asm)
	cmake_path(GET folder FILENAME name)
	file(CREATE_LINK /usr/include/${folder} ${kernel_headers}/${name} SYMBOLIC)
endforeach()
set(CMAKE_C_FLAGS_INIT "-idirafter ${kernel_headers}")
# musl-gcc leaves out the table by which backtraces find call-frame information.
foreach(kind IN ITEMS EXE SHARED MODULE)
	set(CMAKE_${kind}_LINKER_FLAGS_INIT -Wl,--eh-frame-hdr)
endforeach()
# The machine's other libraries are made for glibc.
set(CMAKE_FIND_ROOT_PATH /usr/lib/x86_64-linux-musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# SPDX-License-Identifier: MIT
#
# Cross compiling for ppc64le with Debian's compilers, with the portable switch. The programs run
# under qemu's user-mode emulation; scripts/setup cross installs both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ppc64le)
set(CMAKE_LIBRARY_ARCHITECTURE powerpc64le-linux-gnu)
set(CMAKE_C_COMPILER powerpc64le-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER powerpc64le-linux-gnu-g++)
# The build machine's libraries and CMake packages are for another architecture. The compiler finds
# the headers that serve all architectures (/usr/include) by itself.
set(CMAKE_FIND_ROOT_PATH /usr/powerpc64le-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# -L: the folder of the program's dynamic linker and libraries.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-ppc64le -L /usr/powerpc64le-linux-gnu)

# SPDX-License-Identifier: MIT
#
# Cross compiling for s390x with Debian's compilers: big-endian, with the portable switch. The
# programs run under qemu's user-mode emulation; scripts/setup cross installs both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(CMAKE_LIBRARY_ARCHITECTURE s390x-linux-gnu)
set(CMAKE_C_COMPILER s390x-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER s390x-linux-gnu-g++)
# The build machine's libraries and CMake packages are for another architecture. The compiler finds
# the headers that serve all architectures (/usr/include) by itself.
set(CMAKE_FIND_ROOT_PATH /usr/s390x-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# -L: the folder of the program's dynamic linker and libraries.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-s390x -L /usr/s390x-linux-gnu)

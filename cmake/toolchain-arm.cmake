# SPDX-License-Identifier: MIT
#
# Cross compiling for 32-bit ARM (ARMv7-A, hard-float, Thumb-2) with Debian's compilers. The
# programs run under qemu's user-mode emulation; scripts/setup arm installs both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(CMAKE_LIBRARY_ARCHITECTURE arm-linux-gnueabihf)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
# The build machine's libraries and CMake packages are for another architecture. The compiler finds
# the headers that serve all architectures (/usr/include) by itself.
set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# -L: the folder of the program's dynamic linker and libraries.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm -L /usr/arm-linux-gnueabihf)

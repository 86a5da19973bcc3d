# SPDX-License-Identifier: MIT
#
# Cross compiling for 32-bit ARM (ARMv7-A, hard-float, Thumb-2) with Debian's compilers. What is built
# runs under qemu's user-mode emulation; scripts/setup arm installs both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(CMAKE_LIBRARY_ARCHITECTURE arm-linux-gnueabihf)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
# Libraries and CMake packages of the build machine are of another architecture; headers that are
# for all of them (/usr/include) are seen by the compiler itself.
set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# -L: where the program's dynamic linker and libraries are.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm -L /usr/arm-linux-gnueabihf)

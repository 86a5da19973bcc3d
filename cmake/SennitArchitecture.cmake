# SPDX-License-Identifier: MIT
#
# Sets SENNIT_ARCH to the folder of src/arch that this build uses. This asks the compiler and not
# CMAKE_SYSTEM_PROCESSOR, because -m32 turns a compiler for x86_64 into one for i386.
include(CheckCSourceCompiles)
include(CMakePushCheckState)

set(SENNIT_ARCH "")
foreach(candidate
	"x86_64|defined(__x86_64__) && defined(__LP64__)"
	"i386|defined(__i386__)"
	"aarch64|defined(__aarch64__) && defined(__LP64__)"
	"arm|defined(__arm__)"
	"riscv64|defined(__riscv) && defined(__LP64__)")
	string(REGEX REPLACE "^([^|]*)\\|(.*)$" "\\1;\\2" pair "${candidate}")
	list(GET pair 0 name)
	list(GET pair 1 condition)
	check_c_source_compiles("
		#if !(${condition})
		# error other
		#endif
		int main(void) { return 0; }" SENNIT_ARCH_IS_${name})
	if(SENNIT_ARCH_IS_${name})
		set(SENNIT_ARCH ${name})
		break()
	endif()
endforeach()

if(NOT SENNIT_ARCH)
	message(FATAL_ERROR "sennit has no src/arch folder for what this compiler makes "
		"(CMAKE_SYSTEM_PROCESSOR is ${CMAKE_SYSTEM_PROCESSOR}); "
		"there are x86_64, i386, aarch64, arm and riscv64")
endif()
message(STATUS "Architecture: ${SENNIT_ARCH}")

# RISC-V has no atomic instructions for single bytes. For them GCC before 14 calls libatomic, which
# uses those for words and takes no lock.
set(SENNIT_ARCH_LIBRARIES)
set(byte_exchange "
	#include <stdatomic.h>
	static _Atomic char byte;
	int main(void) { return atomic_exchange(&byte, 1); }")
check_c_source_compiles("${byte_exchange}" SENNIT_HAS_BYTE_ATOMICS)
if(NOT SENNIT_HAS_BYTE_ATOMICS)
	cmake_push_check_state()
	list(APPEND CMAKE_REQUIRED_LIBRARIES atomic)
	check_c_source_compiles("${byte_exchange}" SENNIT_HAS_LIBATOMIC)
	cmake_pop_check_state()
	if(SENNIT_HAS_LIBATOMIC)
		set(SENNIT_ARCH_LIBRARIES atomic)
	endif()
endif()

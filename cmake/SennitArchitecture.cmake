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

# The switch is src/arch/portable where there is none for the architecture, or on demand, for
# testing it. The other files of an architecture are used with either.
option(SENNIT_PORTABLE_SWITCH "Switch by the C library: slower, and not with sanitizers" OFF)
set(SENNIT_SWITCH ${SENNIT_ARCH})
if(SENNIT_PORTABLE_SWITCH OR NOT SENNIT_ARCH)
	set(SENNIT_SWITCH portable)
endif()
if(NOT SENNIT_ARCH)
	string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" SENNIT_ARCH)
	message(STATUS "There is no src/arch folder for ${SENNIT_ARCH}")
endif()
if(SENNIT_SWITCH STREQUAL "portable")
	check_c_source_compiles("
		#include <setjmp.h>
		#include <ucontext.h>
		_Static_assert(sizeof(void *) == 8 && sizeof(long) == 8, \"\");
		static void start(void) {}
		int main(void)
		{
			ucontext_t context;
			jmp_buf state;
			if (getcontext(&context) == 0 && _setjmp(state) == 0)
				makecontext(&context, start, 0);
			return 0;
		}" SENNIT_CAN_SWITCH_PORTABLY)
	if(NOT SENNIT_CAN_SWITCH_PORTABLY)
		message(FATAL_ERROR "sennit has no context switch for what this compiler makes "
			"(CMAKE_SYSTEM_PROCESSOR is ${CMAKE_SYSTEM_PROCESSOR}): there are x86_64, i386, "
			"aarch64, arm and riscv64, and a portable one for other 64-bit architectures "
			"with a C library that has makecontext()")
	endif()
endif()
message(STATUS "Architecture: ${SENNIT_ARCH}, switch: ${SENNIT_SWITCH}")

# RISC-V has no atomic instructions for single bytes. For them GCC before 14 calls libatomic, which
# uses those for words and takes no lock.
set(SENNIT_ARCH_LIBRARIES)
if(SENNIT_SWITCH STREQUAL "portable")
	list(APPEND SENNIT_ARCH_LIBRARIES m) # fegetround()
endif()
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
		list(APPEND SENNIT_ARCH_LIBRARIES atomic)
	endif()
endif()

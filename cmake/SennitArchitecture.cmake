# SPDX-License-Identifier: MIT
#
# Sets SENNIT_ARCH to the folder of src/arch that this build uses. This asks the compiler and not
# CMAKE_SYSTEM_PROCESSOR, because -m32 turns a compiler for x86_64 into one for i386.
include(CheckCSourceCompiles)

set(SENNIT_ARCH "")
foreach(candidate
	"x86_64|defined(__x86_64__) && defined(__LP64__)"
	"i386|defined(__i386__)"
	"aarch64|defined(__aarch64__) && defined(__LP64__)"
	"arm|defined(__arm__)")
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
		"there are x86_64, i386, aarch64 and arm")
endif()
message(STATUS "Architecture: ${SENNIT_ARCH}")

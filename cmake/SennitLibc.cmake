# SPDX-License-Identifier: MIT
#
# What the library uses where the C library has it, found by linking programs:
#   SENNIT_HAS_GETCONTEXT  getcontext(); musl has none (src/arch/registers.h)
#   SENNIT_HAS_RESOLVER    res_query(), which glibc before 2.34 has in a separate library
#   SENNIT_HAS_UNWINDER    the compiler's unwinder. It is missing where a compiler for one C library
#                          makes programs for another, such as Debian's musl-gcc: its libgcc_eh.a
#                          calls a function of glibc
include(CheckCSourceCompiles)
include(CMakePushCheckState)

check_c_source_compiles("
	#include <ucontext.h>
	int main(void) { ucontext_t context; return getcontext(&context); }" SENNIT_HAS_GETCONTEXT)
if(NOT SENNIT_HAS_GETCONTEXT AND NOT SENNIT_ARCH STREQUAL "x86_64")
	message(FATAL_ERROR "sennit needs getcontext() on ${SENNIT_ARCH}, and the C library has none: "
		"without it, src/arch/registers.h can read the registers on x86_64 only")
endif()

check_c_source_compiles("
	#include <sys/types.h>
	#include <netinet/in.h>
	#include <arpa/nameser.h>
	#include <resolv.h>
	int main(void)
	{
		unsigned char message[512];
		return dn_skipname(message, message) +
		       res_query(\"\", ns_c_in, ns_t_srv, message, sizeof message);
	}" SENNIT_HAS_RESOLVER)

cmake_push_check_state()
string(APPEND CMAKE_REQUIRED_FLAGS " -fexceptions")
check_c_source_compiles("
	int puts(const char *);
	static void leave(int *at) { (void)at; }
	int main(void)
	{
		int entered __attribute__((cleanup(leave))) = 0;
		return puts(\"\") + entered;
	}" SENNIT_HAS_UNWINDER)
cmake_pop_check_state()
if(NOT SENNIT_HAS_UNWINDER)
	message(STATUS "The compiler's unwinder cannot be linked: a C++ exception that leaves a callback "
		"does not run the clean-up of the library's functions")
endif()

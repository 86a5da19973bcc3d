# SPDX-License-Identifier: MIT
#
# sennit_protect_stacks(<target>...): whoever links these targets is compiled with
# -fstack-clash-protection, where the compiler of that project has it. A frame that is larger than the
# guard below a task's stack then touches every page on its way and hits the guard; without the flag it
# jumps over it into the stack of another task. Asked when the targets are used, as an installed library
# and the program may be compiled by different compilers: so BUILD_INTERFACE, which install(EXPORT) leaves
# out, and this file is installed beside sennit-config.cmake. docs/stacks.md says more.
include(CheckCCompilerFlag)
include(CheckCXXCompilerFlag)

function(sennit_protect_stacks)
	# GCC for 32-bit ARM protects frames of variable size only, and what it does to the others' prologues
	# its unwind tables do not tell: a backtrace of an overflow ends at its first frame.
	if(CMAKE_SYSTEM_PROCESSOR MATCHES "^arm" AND CMAKE_SIZEOF_VOID_P EQUAL 4)
		return()
	endif()
	get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
	set(options)
	if("C" IN_LIST languages)
		check_c_compiler_flag(-fstack-clash-protection SENNIT_C_STACK_CLASH_PROTECTION)
		if(SENNIT_C_STACK_CLASH_PROTECTION)
			list(APPEND options "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:C>:-fstack-clash-protection>>")
		endif()
	endif()
	if("CXX" IN_LIST languages)
		check_cxx_compiler_flag(-fstack-clash-protection SENNIT_CXX_STACK_CLASH_PROTECTION)
		if(SENNIT_CXX_STACK_CLASH_PROTECTION)
			list(APPEND options "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-fstack-clash-protection>>")
		endif()
	endif()
	foreach(target IN LISTS ARGN)
		# find_package() may come here several times.
		get_target_property(present ${target} INTERFACE_COMPILE_OPTIONS)
		if(NOT present MATCHES "stack-clash")
			set_property(TARGET ${target} APPEND PROPERTY
				INTERFACE_COMPILE_OPTIONS ${options})
		endif()
	endforeach()
endfunction()

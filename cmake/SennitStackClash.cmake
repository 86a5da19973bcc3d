# SPDX-License-Identifier: MIT
#
# sennit_protect_stacks(<target>...): targets that link these targets are compiled with
# -fstack-clash-protection, if the compiler of that project has it. A frame that is larger than the
# guard below a task's stack then touches each of its pages and hits the guard; without the flag it
# skips the guard and lands in the stack of another task. The check runs where the targets are used,
# because an installed library and the program may be compiled by different compilers. Therefore the
# flag is wrapped in BUILD_INTERFACE, which install(EXPORT) drops, and this file is installed beside
# sennit-config.cmake. docs/stacks.md says more.
include(CheckCCompilerFlag)
include(CheckCXXCompilerFlag)

function(sennit_protect_stacks)
	# GCC for 32-bit ARM protects only frames of variable size. Its unwind tables do not
	# describe the changed prologues of the others, so the backtrace of an overflow ends at its
	# first frame.
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
		# find_package() may run this several times.
		get_target_property(present ${target} INTERFACE_COMPILE_OPTIONS)
		if(NOT present MATCHES "stack-clash")
			set_property(TARGET ${target} APPEND PROPERTY
				INTERFACE_COMPILE_OPTIONS ${options})
		endif()
	endforeach()
endfunction()

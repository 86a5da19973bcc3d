# SPDX-License-Identifier: MIT
#
# Compiling the tests takes most of the time of `make test`, and Clang needs half of GCC's. So a
# preset may name a compiler for the tests alone; where it is not installed, they are compiled by
# the other. What is shipped, and the headers of the C++ interface as examples use them, are GCC's
# all the same, unless a build asks for the tools, too: then all that is left to GCC is C.
set(SENNIT_TEST_COMPILER "" CACHE STRING "Compiler of the tests' C++ sources. Empty: the same")
option(SENNIT_TOOLS_BY_TEST_COMPILER "Compile the tools with the tests' compiler, too" OFF)

# From here on, this folder's C++ and that of the folders that it adds is compiled by it. Sets
# SENNIT_TESTS_BY_CLANG, and SENNIT_COMPILER_LAUNCHER for targets that the other has to compile.
macro(sennit_use_test_compiler)
	if(NOT DEFINED SENNIT_TESTS_BY_CLANG)
		set(SENNIT_TESTS_BY_CLANG FALSE)
		set(SENNIT_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
		if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
			set(SENNIT_TESTS_BY_CLANG TRUE)
		elseif(SENNIT_TEST_COMPILER)
			find_program(SENNIT_TEST_CXX ${SENNIT_TEST_COMPILER})
			if(SENNIT_TEST_CXX)
				set(SENNIT_TESTS_BY_CLANG TRUE)
				set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/tests/compile
					${CMAKE_CXX_COMPILER} ${SENNIT_TEST_CXX} ${CMAKE_CXX_COMPILER_LAUNCHER})
			endif()
		endif()
	endif()
endmacro()

# SPDX-License-Identifier: MIT
#
# Compiling the tests takes most of the time of `make test`, and Clang needs half of GCC's. So a
# preset may name a compiler for the tests' C++ alone, and a build that does not ship the tools one
# for theirs; where it is not installed, they are compiled by the other. What is shipped, and the
# headers of the C++ interface as examples use them, are GCC's all the same.
set(SENNIT_TEST_COMPILER "" CACHE STRING "Compiler of the tests' C++ sources. Empty: the same")
set(SENNIT_TOOLS_COMPILER "" CACHE STRING "Compiler of the tools' C++ sources. Empty: the same")

# From here on, this folder's C++ and that of the folders that it adds is compiled by the compiler
# with that name. Sets SENNIT_BY_CLANG, whether that is Clang, and SENNIT_COMPILER_LAUNCHER, for
# targets that the other compiler has to compile.
macro(sennit_compile_cxx_by name)
	set(SENNIT_BY_CLANG FALSE)
	set(SENNIT_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
	if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
		set(SENNIT_BY_CLANG TRUE)
	elseif(NOT "${name}" STREQUAL "")
		string(MAKE_C_IDENTIFIER "SENNIT_FOUND_${name}" found)
		find_program(${found} ${name})
		if(${found})
			set(SENNIT_BY_CLANG TRUE)
			set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/tests/compile
				${CMAKE_CXX_COMPILER} ${${found}} ${CMAKE_CXX_COMPILER_LAUNCHER})
		endif()
	endif()
endmacro()

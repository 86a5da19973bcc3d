# SPDX-License-Identifier: MIT
#
# What the GoogleTest programs are made of: their compiler and flags, GoogleTest itself, what they
# share (support/) and their precompiled header. Included by CMakeLists.txt, in a build that has a
# C++ compiler.
include(CheckLinkerFlag)
include(GoogleTest)

sennit_compile_cxx_by("${SENNIT_TEST_COMPILER}")

set(SENNIT_GOOGLETEST_DIR /usr/src/googletest CACHE PATH "GoogleTest's source tree")
if(NOT EXISTS ${SENNIT_GOOGLETEST_DIR}/CMakeLists.txt)
	message(FATAL_ERROR "The tests need GoogleTest's sources in ${SENNIT_GOOGLETEST_DIR} (Debian: "
		"googletest; scripts/setup build installs it), or build without: -DSENNIT_TESTS=OFF")
endif()
# Built here because every preset needs its own: another architecture, another sanitizer.
set(INSTALL_GTEST OFF)
set(BUILD_GMOCK ON)
add_subdirectory(${SENNIT_GOOGLETEST_DIR} googletest EXCLUDE_FROM_ALL SYSTEM)
foreach(target gtest gtest_main gmock)
	target_compile_options(${target} PRIVATE -w -O0 -g0)
endforeach()

# Compiling the tests takes most of the time of `make test`. Most of that is spent on optimizing the
# expansion of GoogleTest's macros, and on its debug information: a large test takes 11 s of CPU at
# -O2 -g, 5 s at -O1 -g1 and 3 s at -O0 -g1. Backtraces and sanitizers need only line numbers. The
# debug preset is for the debugger and keeps its flags. The library under test is compiled as it is
# shipped. These do not help: all tests of a layer in one program, which takes as long as its files
# do one by one (the header is precompiled, and each body is code of its own).
# Checks that expand to less code than EXPECT_EQ save a tenth with GCC and 3 % with Clang: most of
# the rest is spent on the standard library's templates and the tests' own lambdas.
add_library(sennit-test-flags INTERFACE)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" OR SENNIT_SANITIZE)
	target_compile_options(sennit-test-flags INTERFACE -O0 -g1)
endif()
# GNU ld takes 0.24 s of CPU for a program of a test, and gold 0.11 s. For a test of the relay with
# ASan GNU ld takes 1.3 s, gold 0.8 s and warns, and lld 0.4 s; with TSan 0.9, 0.45 and 0.2 s. mold
# refuses tests that replace a function of the library.
set(linker gold)
if(SENNIT_SANITIZE)
	set(linker lld)
endif()
check_linker_flag(CXX -fuse-ld=${linker} SENNIT_HAS_TEST_LINKER)
if(SENNIT_HAS_TEST_LINKER)
	target_link_options(sennit-test-flags INTERFACE -fuse-ld=${linker})
endif()
# Two of the checks of undefined behaviour take a sixth of the time of compiling a test. In a test's
# own code they find little: a null pointer is found without them, and these machines need no
# alignment.
if(SENNIT_SANITIZE STREQUAL "address")
	target_compile_options(sennit-test-flags INTERFACE -fno-sanitize=null,alignment)
	# The others take a tenth of it. They stay where all tests are built, unlike in the gate.
	if(SENNIT_TEST_ONLY)
		target_compile_options(sennit-test-flags INTERFACE -fno-sanitize=undefined)
	endif()
endif()

# Without it, a forked child may hang in malloc(): asan_fork.cc says why.
if(SENNIT_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"
		AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 18)
	add_library(sennit-asan-fork OBJECT asan_fork.cc)
	target_link_libraries(sennit-asan-fork PRIVATE sennit-flags)
	target_sources(sennit-test-flags INTERFACE $<TARGET_OBJECTS:sennit-asan-fork>)
	set(SENNIT_ASAN_FORK $<TARGET_OBJECTS:sennit-asan-fork>)
endif()

# Backtraces of a test's own functions need them. They are the default except on 32-bit ARM.
target_compile_options(sennit-test-flags INTERFACE -funwind-tables)

file(GLOB support_sources CONFIGURE_DEPENDS support/*.c support/*.cc)
add_library(sennit-test-support INTERFACE)
target_include_directories(sennit-test-support INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(sennit-test-support INTERFACE sennit::sennit-static sennit-internal)
if(CMAKE_CROSSCOMPILING_EMULATOR)
	target_compile_definitions(sennit-test-support INTERFACE TEST_EMULATED=1)
endif()
if(support_sources)
	add_library(sennit-test-support-objects STATIC ${support_sources})
	target_include_directories(sennit-test-support-objects PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
	target_link_libraries(sennit-test-support-objects PUBLIC
		sennit::sennit-static sennit-internal gtest)
	target_link_libraries(sennit-test-support INTERFACE sennit-test-support-objects)
endif()

# Parsing <gtest/gtest.h> takes most of the time of compiling a test, so it is done once per preset.
# Clang reads of a precompiled header what a test uses. The headers that most tests include are
# therefore precompiled, too, which saves a quarter of the rest. GCC reads all of it each time, up
# to 1.3 s more; without them it also notices a test that lacks an #include.
set(headers "<gtest/gtest.h>")
if(SENNIT_BY_CLANG)
	list(APPEND headers "<algorithm>" "<atomic>" "<chrono>" "<functional>" "<map>" "<memory>"
		"<random>" "<sstream>" "<string>" "<thread>" "<vector>" "<sennit/sennit.h>"
		"<sennit/sennit.hpp>" "${CMAKE_CURRENT_SOURCE_DIR}/support/runtime.h"
		"${CMAKE_CURRENT_SOURCE_DIR}/support/net.h")
endif()
list(TRANSFORM headers REPLACE ">$" "$<ANGLE-R>")
list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gtest_header.cc CONTENT "")
add_library(sennit-test-headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/gtest_header.cc)
target_precompile_headers(sennit-test-headers PRIVATE ${headers})
target_link_libraries(sennit-test-headers PRIVATE sennit-test-support sennit-test-flags gtest_main)

# SPDX-License-Identifier: MIT
#
# Compiler flags. What must hold for every object of a build, those of GoogleTest included, is set
# for the directory (the sanitizers); what holds for our own code is in the interface targets
#   sennit-flags    everything of ours: warnings, SENNIT_DEBUG
#   sennit-internal sees src/ beside include/: the library and its tests
include(CheckCCompilerFlag)
include(CheckIncludeFile)

if(SENNIT_SANITIZE STREQUAL "address" AND SENNIT_VARIANT)
	# Without the undefined behaviour sanitizer: whoever links this would need that too.
	set(sanitizer_flags -fsanitize=address -fno-omit-frame-pointer)
elseif(SENNIT_SANITIZE STREQUAL "address")
	set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
elseif(SENNIT_SANITIZE STREQUAL "thread")
	set(sanitizer_flags -fsanitize=thread -fno-omit-frame-pointer)
	# GCC warns of fences, which neither compiler's sanitizer follows. It then knows less order
	# between threads than there is; where ours matters to it, an atomic access is beside the
	# fence.
	check_c_compiler_flag(-Wtsan SENNIT_HAS_WTSAN)
	if(SENNIT_HAS_WTSAN)
		list(APPEND sanitizer_flags -Wno-tsan)
	endif()
elseif(NOT SENNIT_SANITIZE STREQUAL "")
	message(FATAL_ERROR
		"SENNIT_SANITIZE is \"${SENNIT_SANITIZE}\"; it can be empty, address or thread")
endif()
if(SENNIT_SANITIZE)
	add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${sanitizer_flags}>")
	add_link_options(${sanitizer_flags})
endif()

add_library(sennit-flags INTERFACE)
target_compile_options(sennit-flags INTERFACE
	$<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpointer-arith -Wvla
		-Wformat-security -Wmissing-declarations -Wwrite-strings>
	# GCC's -Wshadow takes sn_stats() for hiding the constructor of struct sn_stats.
	$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wshadow=local>
	$<$<NOT:$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wshadow>
	$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition>
	$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
	$<$<BOOL:${SENNIT_WERROR}>:-Werror>)
if(SENNIT_DEBUG)
	target_compile_definitions(sennit-flags INTERFACE SENNIT_DEBUG=1)
endif()
target_link_libraries(sennit-flags INTERFACE Threads::Threads)

add_library(sennit-internal INTERFACE)
target_include_directories(sennit-internal INTERFACE
	${PROJECT_SOURCE_DIR}/src
	${PROJECT_SOURCE_DIR}/include)
# 64-bit file offsets also where long has 32 bits. Not _TIME_BITS: the library makes raw system
# calls, whose timespec must stay the kernel's.
target_compile_definitions(sennit-internal INTERFACE
	$<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>
	_FILE_OFFSET_BITS=64)
target_link_libraries(sennit-internal INTERFACE sennit-flags)
if(SENNIT_VALGRIND)
	unset(SENNIT_HAS_MEMCHECK CACHE) # it may have been installed meanwhile
	check_include_file(valgrind/memcheck.h SENNIT_HAS_MEMCHECK)
	if(NOT SENNIT_HAS_MEMCHECK)
		message(FATAL_ERROR "The library for valgrind needs <valgrind/memcheck.h> (Debian: valgrind)")
	endif()
	target_compile_definitions(sennit-internal INTERFACE SN_VALGRIND=1)
endif()

# What only the library's own code is compiled with.
set(SENNIT_LIBRARY_OPTIONS
	# C frames may lie between a C++ throw in a task and its handler, and the unwinder of a
	# backtrace must get through them.
	-fexceptions
	-funwind-tables
	# Backtraces from signal handlers and profilers walk frame pointers.
	-fno-omit-frame-pointer
	# Calls into libc are bound when the program starts: lazy binding would run the dynamic
	# linker, which saves every vector register, on a small task stack.
	-fno-plt
	# Thread-locals at a fixed distance from the thread pointer, without a call, in the shared
	# library too. They are few, so the C library's reserve holds them also after dlopen().
	-ftls-model=initial-exec)
check_c_compiler_flag(-fstack-clash-protection SENNIT_HAS_STACK_CLASH_PROTECTION)
if(SENNIT_HAS_STACK_CLASH_PROTECTION)
	# A large frame touches every page on its way, so it cannot jump over a guard page.
	list(APPEND SENNIT_LIBRARY_OPTIONS -fstack-clash-protection)
endif()

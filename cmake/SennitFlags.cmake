# SPDX-License-Identifier: MIT
#
# Compiler flags. Flags for every object of a build, including GoogleTest's (the sanitizers), are
# set for the directory. Flags for sennit's own code are in these interface targets:
#   sennit-flags    all of sennit's code: warnings, SENNIT_DEBUG
#   sennit-internal the library and its tests, which include from src/ as well as include/
include(CheckCCompilerFlag)
include(CheckIncludeFile)

if(SENNIT_SANITIZE STREQUAL "address" AND SENNIT_VARIANT)
	# A variant does not have the undefined behaviour sanitizer, because programs that link it
	# would need that, too.
	set(sanitizer_flags -fsanitize=address -fno-omit-frame-pointer)
elseif(SENNIT_SANITIZE STREQUAL "address")
	# The check vptr is left out: it opens a pipe to find out whether memory is readable. When
	# no descriptor is left, which some tests bring about, it reports readable memory as
	# unreadable.
	set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize=vptr
		-fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SENNIT_SANITIZE STREQUAL "thread")
	set(sanitizer_flags -fsanitize=thread -fno-omit-frame-pointer)
	# GCC warns about fences, because neither compiler's sanitizer understands them: it then
	# sees less ordering between threads than there is. Where that matters, the code has an
	# atomic access beside the fence.
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
	# On i386, GCC would remark on GCC 10's layout of 8-byte atomics in every file.
	$<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-psabi>
	# GCC's -Wshadow also reports, in C++, a function and a structure of the same name.
	$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wshadow=local>
	$<$<NOT:$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wshadow>
	$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition>
	$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
	$<$<BOOL:${SENNIT_WERROR}>:-Werror>
	# Messages name source files relative to the project, so that a program is the same wherever
	# it was built.
	$<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(SENNIT_DEBUG)
	target_compile_definitions(sennit-flags INTERFACE SENNIT_DEBUG=1)
endif()
if(SENNIT_CHECKED)
	target_compile_definitions(sennit-flags INTERFACE SENNIT_CHECKED=1)
endif()
if(SENNIT_SWITCH STREQUAL "portable")
	if(SENNIT_SANITIZE)
		message(FATAL_ERROR "SENNIT_SANITIZE=${SENNIT_SANITIZE} cannot be used with the portable "
			"switch, whose longjmp() the sanitizers would misunderstand")
	endif()
	target_compile_definitions(sennit-flags INTERFACE SENNIT_PORTABLE_SWITCH=1)
endif()
target_link_libraries(sennit-flags INTERFACE Threads::Threads ${SENNIT_ARCH_LIBRARIES})

add_library(sennit-internal INTERFACE)
target_include_directories(sennit-internal INTERFACE
	${PROJECT_SOURCE_DIR}/src
	${PROJECT_SOURCE_DIR}/include)
# 64-bit file offsets even where long has 32 bits. Not _TIME_BITS=64: the library makes raw system
# calls, whose timespec must stay the kernel's.
target_compile_definitions(sennit-internal INTERFACE
	$<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>
	_FILE_OFFSET_BITS=64
	SENNIT_HAS_GETCONTEXT=$<BOOL:${SENNIT_HAS_GETCONTEXT}>
	SENNIT_HAS_RESOLVER=$<BOOL:${SENNIT_HAS_RESOLVER}>)
target_link_libraries(sennit-internal INTERFACE sennit-flags)
if(SENNIT_VALGRIND)
	unset(SENNIT_HAS_MEMCHECK CACHE) # it may have been installed since the last run
	check_include_file(valgrind/memcheck.h SENNIT_HAS_MEMCHECK)
	if(NOT SENNIT_HAS_MEMCHECK)
		message(FATAL_ERROR "The library for valgrind needs <valgrind/memcheck.h> (Debian: valgrind)")
	endif()
	target_compile_definitions(sennit-internal INTERFACE SN_VALGRIND=1)
endif()

# Options for the library's own code only.
set(SENNIT_LIBRARY_OPTIONS
	# Backtraces unwind these functions, and so does a C++ exception that leaves a callback.
	-funwind-tables
	# Backtraces from signal handlers and profilers walk frame pointers.
	-fno-omit-frame-pointer
	# Calls into libc are bound when the program starts: lazy binding would run the dynamic
	# linker, which saves every vector register, on a small task stack.
	-fno-plt
	# Thread-locals at a fixed offset from the thread pointer, without a call, in the shared
	# library too. They are few, so they fit into the C library's static TLS reserve even after
	# dlopen().
	-ftls-model=initial-exec)
if(SENNIT_HAS_UNWINDER)
	# Such an exception also runs their clean-up.
	list(APPEND SENNIT_LIBRARY_OPTIONS -fexceptions)
endif()
check_c_compiler_flag(-fstack-clash-protection SENNIT_HAS_STACK_CLASH_PROTECTION)
if(SENNIT_HAS_STACK_CLASH_PROTECTION)
	# A large frame touches each of its pages, so it cannot skip a guard page.
	list(APPEND SENNIT_LIBRARY_OPTIONS -fstack-clash-protection)
endif()

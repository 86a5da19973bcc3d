# SPDX-License-Identifier: MIT
#
# SENNIT_VARIANT: a build of the library alone, for one tool, which is installed beside the normal
# build under a different name (scripts/install-variants makes all of them). Every variant checks
# the runtime's assertions, because a program links it to find mistakes.
#
#   sennit_suffix           suffix of the library's name: empty, or such as "-asan"
#   sennit_variant_options  compile and link options of a program that links it
set(SENNIT_VARIANTS debug asan tsan valgrind)
set(sennit_suffix "")
set(sennit_variant_options "")
if(NOT SENNIT_VARIANT)
	return()
endif()

if(NOT SENNIT_VARIANT IN_LIST SENNIT_VARIANTS)
	list(JOIN SENNIT_VARIANTS ", " known)
	message(FATAL_ERROR "SENNIT_VARIANT is \"${SENNIT_VARIANT}\"; it can be empty, or one of ${known}")
endif()
set(sennit_suffix "-${SENNIT_VARIANT}")
set(SENNIT_DEBUG ON)
if(SENNIT_VARIANT STREQUAL "asan")
	set(SENNIT_SANITIZE address)
	set(sennit_variant_options -fsanitize=address)
elseif(SENNIT_VARIANT STREQUAL "tsan")
	set(SENNIT_SANITIZE thread)
	set(sennit_variant_options -fsanitize=thread)
elseif(SENNIT_VARIANT STREQUAL "valgrind")
	set(SENNIT_VALGRIND ON)
endif()
foreach(part TESTS EXAMPLES RELAY BENCH)
	set(SENNIT_${part} OFF)
endforeach()
if(SENNIT_VARIANT STREQUAL "debug")
	set(CMAKE_C_FLAGS_DEBUG "-O0 -g")
elseif(SENNIT_VARIANT STREQUAL "valgrind")
	# valgrind 3.19 cannot read Clang 14's DWARF 5.
	set(CMAKE_C_FLAGS_DEBUG "-O1 -gdwarf-4")
else()
	set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
endif()

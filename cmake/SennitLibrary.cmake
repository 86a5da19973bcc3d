# SPDX-License-Identifier: MIT
#
# Functions that make a library of sennit, that decide whether a part is built, and that find a
# header of another library.
include(CheckCSourceCompiles)

# The part of the version that names an interface: before 1.0 each minor version is an interface of
# its own.
set(SENNIT_ABI ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
	set(SENNIT_ABI ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()

# Binding is eager, for the reason given at -fno-plt, and because the tables can be made read-only
# once they are bound.
set(SENNIT_HARDENED_LINK -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack)

# Hardens a program of sennit and the libraries that it is made of: the program is
# position-independent, no frame skips a guard page, and its tables are read-only.
# tests/packaging/hardening_test.sh checks it.
#   sennit_harden_program(<program> [<library>...])
function(sennit_harden_program program)
	foreach(target ${program} ${ARGN})
		target_compile_options(${target} PRIVATE -fPIE)
		if(SENNIT_HAS_STACK_CLASH_PROTECTION AND NOT SENNIT_ARCH STREQUAL "arm")
			target_compile_options(${target} PRIVATE -fstack-clash-protection)
		endif()
	endforeach()
	target_link_options(${program} PRIVATE -pie ${SENNIT_HARDENED_LINK})
endfunction()

# The library's own code, compiled once for the static and the shared library.
function(sennit_object_library name)
	add_library(${name} OBJECT ${ARGN})
	set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
	target_link_libraries(${name} PRIVATE sennit-internal)
	target_compile_options(${name} PRIVATE
		"$<$<COMPILE_LANGUAGE:C>:${SENNIT_LIBRARY_OPTIONS}>")
endfunction()

# Makes <name>-static, and <name>-shared, which exports the names of the exports.map in its folder.
#   sennit_add_library(<name> EXPORT_NAME <name> [SOURCES <file>...] [OBJECTS <target>...]
#       [LINK <library>...])
# EXPORT_NAME: sennit::<EXPORT_NAME> and sennit::<EXPORT_NAME>-static are its names in this build and
# in what is installed. OBJECTS: object libraries beside <name>-objects, which is made of SOURCES.
# LINK: another library of sennit, which is linked in the same kind, or of others.
function(sennit_add_library name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPORT_NAME" "SOURCES;OBJECTS;LINK")
	if(arg_SOURCES)
		sennit_object_library(${name}-objects ${arg_SOURCES})
		list(APPEND arg_OBJECTS ${name}-objects)
	endif()
	list(TRANSFORM arg_OBJECTS REPLACE ".+" "$<TARGET_OBJECTS:\\0>")
	foreach(kind static shared)
		string(TOUPPER ${kind} KIND)
		set(links ${arg_LINK})
		list(TRANSFORM links REPLACE "^sennit.*" "\\0-${kind}")
		add_library(${name}-${kind} ${KIND} ${arg_OBJECTS})
		target_link_libraries(${name}-${kind} PUBLIC ${links})
		target_include_directories(${name}-${kind} INTERFACE
			$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
			$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
		target_compile_features(${name}-${kind} INTERFACE c_std_11)
		set_target_properties(${name}-${kind} PROPERTIES
			OUTPUT_NAME ${name}${sennit_suffix}
			LINKER_LANGUAGE C
			VERSION ${PROJECT_VERSION}
			SOVERSION ${SENNIT_ABI})
	endforeach()
	set_target_properties(${name}-static PROPERTIES EXPORT_NAME ${arg_EXPORT_NAME}-static)
	set_target_properties(${name}-shared PROPERTIES
		EXPORT_NAME ${arg_EXPORT_NAME}
		LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
	if("${arg_LINK}" MATCHES "sennit")
		# If the library is preloaded by its path, it loads the libsennit beside it into
		# programs that do not have it in their search path, among them all children of such
		# a program.
		set_target_properties(${name}-shared PROPERTIES INSTALL_RPATH "$ORIGIN")
	endif()
	# Sanitizers leave symbols for the program to define; otherwise a missing one is an error here.
	target_link_options(${name}-shared PRIVATE ${SENNIT_HARDENED_LINK} -Wl,--as-needed
		-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/exports.map
		$<$<NOT:$<BOOL:${SENNIT_SANITIZE}>>:-Wl,-z,defs>)

	set(kind static)
	if(BUILD_SHARED_LIBS)
		set(kind shared)
	endif()
	add_library(${name} ALIAS ${name}-${kind})
	add_library(sennit::${arg_EXPORT_NAME} ALIAS ${name}-${kind})
	add_library(sennit::${arg_EXPORT_NAME}-static ALIAS ${name}-static)
endfunction()

# Sets SENNIT_BUILD_<PART> to whether a part is built that needs others' libraries. The cache variable
# SENNIT_<PART> is AUTO (where the program can be linked), ON (or it is an error) or OFF. The program
# is linked, because the headers may be of one architecture and the library of another.
#   sennit_probe(<PART> <name> NEEDS <what> [UNLESS <reason>] SOURCE <program> LIBRARIES <library>...)
# NEEDS: the words for what is missing. UNLESS: if not empty, why the part is not built at all.
function(sennit_probe part name)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "NEEDS;UNLESS;SOURCE" "LIBRARIES")
	set(SENNIT_${part} AUTO CACHE STRING "Build ${name}: AUTO (where it can be), ON or OFF")
	set_property(CACHE SENNIT_${part} PROPERTY STRINGS AUTO ON OFF)
	set(why "${arg_UNLESS}")
	if(NOT SENNIT_${part})
		set(why "SENNIT_${part} is off")
	elseif(NOT why)
		if(NOT SENNIT_CAN_LINK_${part})
			unset(SENNIT_CAN_LINK_${part} CACHE) # it may have been installed since
		endif()
		set(CMAKE_REQUIRED_LIBRARIES ${arg_LIBRARIES})
		check_c_source_compiles("${arg_SOURCE}" SENNIT_CAN_LINK_${part})
		if(NOT SENNIT_CAN_LINK_${part})
			set(why "there is no ${arg_NEEDS} for ${SENNIT_ARCH}")
		endif()
	endif()
	set(SENNIT_BUILD_${part} ON PARENT_SCOPE)
	if(why)
		set(SENNIT_BUILD_${part} OFF PARENT_SCOPE)
		if(SENNIT_${part} STREQUAL "ON")
			message(FATAL_ERROR "SENNIT_${part}=ON, but ${why}")
		endif()
		message(STATUS "${name} is not built, nor are its tests: ${why}")
	endif()
endfunction()

# Sets the cache variable to the folder of a header, or ends with the name of the package that has it
# and the option that builds without <program>.
function(sennit_find_header variable header program option package)
	find_path(${variable} ${header} HINTS ${ARGN})
	if(NOT ${variable})
		message(FATAL_ERROR "${program} needs <${header}> (Debian: ${package}; scripts/setup build "
			"installs it), or build without it: -D${option}=OFF")
	endif()
endfunction()

# SPDX-License-Identifier: MIT
#
# What `cmake --install` puts where: both libraries, those of the clock alone, the headers, the CMake package, sennit.pc and
# the relay.
include(CMakePackageConfigHelpers)

install(TARGETS sennit-static sennit-shared sennit-clock-static sennit-clock-shared EXPORT sennit
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/sennit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(TARGET sennit-relay)
	install(TARGETS sennit-relay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
install(EXPORT sennit NAMESPACE sennit:: FILE sennit-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/sennit-config.cmake.in sennit-config.cmake
	INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(sennit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config.cmake
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config-version.cmake
	DESTINATION ${package_dir})

# sennit.pc finds its prefix from its own place, so that an installed tree can be moved. An absolute
# library or include folder stays what it is.
cmake_path(SET pc_dir NORMALIZE "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${pc_dir} OUTPUT_VARIABLE pc_up)
foreach(dir LIBDIR INCLUDEDIR)
	if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
		set(pc_${dir} "${CMAKE_INSTALL_${dir}}")
	else()
		set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
	endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
	set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
	set(pc_prefix "\${pcfiledir}/${pc_up}")
endif()
configure_file(cmake/sennit.pc.in sennit.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

/* SPDX-License-Identifier: MIT */
/*
 * Files that are read as a whole, and whether they have changed since (file_stamp.hpp): what a TLS
 * context is made from.
 *
 * Everything here blocks on the file system.
 */
#ifndef RELAY_TLS_FILES_HPP
#define RELAY_TLS_FILES_HPP

#include "base/file_stamp.hpp"

#include <map>
#include <string>

namespace relay
{

class tls_files
{
public:
	/*
	 * Reads the file, once: later calls give the same text. False if it cannot be read, is not
	 * a regular one, is larger than 64 MiB, or has nothing in PEM; why has the reason then. Its
	 * stamp was taken before it was read, so a change during that is noticed later.
	 */
	bool read(const std::string &path, std::string &into, std::string &why);

	/* Whether it is a folder, which is only watched. */
	bool is_folder(const std::string &path);

	/* The stamps of the files that were read, and their stamps now. */
	const file_stamps &before() const noexcept { return stamps_; }
	file_stamps now() const { return stamps_of(stamps_); }

private:
	file_stamps stamps_;
	std::map<std::string, std::string> texts_;
};

} // namespace relay

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The files from which a TLS context is made. They are read as a whole, and their stamps
 * (file_stamp.hpp) show whether they have changed since.
 *
 * Everything here blocks on the file system.
 */
#ifndef RELAY_TLS_FILES_HPP
#define RELAY_TLS_FILES_HPP

#include "base/file_stamp.hpp"
#include "tls/tls_settings.hpp"

#include <map>
#include <string>

namespace relay
{

class tls_files
{
public:
	/* Reads all files of the settings. Later calls of the functions below do not block then,
	 * also for files that cannot be read. */
	static tls_files of(const tls_server_settings &settings);
	static tls_files of(const tls_client_settings &settings);

	/*
	 * Reads the file once: later calls return the same text, or have the same failure. Returns
	 * false if the file cannot be read, is not a regular file, is larger than 64 MiB, or has
	 * nothing in PEM; then why has the reason. The stamp is taken before the file is read, so a
	 * change during the read is noticed later.
	 */
	bool read(const std::string &path, std::string &into, std::string &why);

	/* Whether the path is a folder. Of a folder only stamps are kept: its own, which changes
	 * with the names in it, and those of the files that OpenSSL looks up by their names. */
	bool is_folder(const std::string &path);

	/* All stamps of a folder for which is_folder() was called, as a text. */
	std::string stamps_of_folder(const std::string &path) const;

	/* Records that a shortage or the system has kept the files from being read or judged, which
	 * read() does, too. The same files may be good at the next attempt, without a change. */
	void leave_unjudged() noexcept { is_judged_ = false; }
	/* Whether a failure is due to the content of the files. */
	bool is_judged() const noexcept { return is_judged_; }

	/* Frees the texts once they have been used. */
	void forget_texts() noexcept { texts_.clear(); }

	/* The stamps of the files that were read, and their stamps now. */
	const file_stamps &before() const noexcept { return stamps_; }
	file_stamps now() const { return stamps_of(stamps_); }

private:
	bool read_text(const std::string &path, std::string &into, std::string &why);

	file_stamps stamps_;
	std::map<std::string, std::string> texts_;
	std::map<std::string, std::string> failures_;
	std::map<std::string, bool> folders_; /* whether the path is one */
	bool is_judged_ = true;
};

} // namespace relay

#endif

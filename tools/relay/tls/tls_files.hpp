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

#include <cstddef>
#include <map>
#include <string>

namespace relay
{

/* The key of the pair at that place of n, for messages. */
std::string key_of_pair(std::size_t i, std::size_t n);

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

	/*
	 * Sets `into` to the text of a file with authorities, as read() does, or to the path of a
	 * folder. Of a folder only stamps are kept: its own, which changes with the names in it,
	 * and those of the files that OpenSSL looks up by their names. A folder that may not be
	 * listed is good, too, because OpenSSL only opens files in it, but then changes of these
	 * files are not noticed.
	 */
	bool read_authorities(const std::string &path, std::string &into, std::string &why);

	/* All stamps of a folder for which read_authorities() was called, as a text. */
	std::string stamps_of_folder(const std::string &path) const;

	/* Records that a shortage or the system has kept the files from being read or judged, which
	 * read() does, too. The same files may be good at the next attempt, without a change. */
	void leave_unjudged() noexcept { is_judged_ = false; }
	/* Whether a failure is due to the content of the files. */
	bool is_judged() const noexcept { return is_judged_; }

	/* The first failure of of(), with the key of the file; empty if all could be read. */
	const std::string &unread() const noexcept { return unread_; }

	/* Frees the texts once they have been used. */
	void forget_texts() noexcept { texts_.clear(); }

	/* The stamps of the files that were read, and their stamps now. */
	const file_stamps &before() const noexcept { return stamps_; }
	file_stamps now() const { return stamps_of(stamps_); }

private:
	bool read_text(const std::string &path, std::string &into, std::string &why);
	bool is_folder(const std::string &path);
	void note_names(const std::string &folder);
	template <class Read>
	void note(const std::string &key, const std::string &path, const Read &read);

	file_stamps stamps_;
	std::map<std::string, std::string> texts_;
	std::map<std::string, std::string> failures_;
	std::map<std::string, bool> folders_; /* whether the path is one */
	std::string unread_;
	bool is_judged_ = true;
};

} // namespace relay

#endif

/* SPDX-License-Identifier: MIT */
#include "tls/tls_files.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace relay
{
namespace
{

/* The largest revocation lists have some ten MiB. */
constexpr std::size_t largest_pem = std::size_t{64} << 20;

/* Whether it is a name as of openssl-rehash(1), such as "5ed36f99.0" or "5ed36f99.r0". */
bool is_of_a_hash(std::string_view name)
{
	return name.size() > 9 && name[8] == '.' &&
	       name.substr(0, 8).find_first_not_of("0123456789abcdef") == name.npos;
}

} // namespace

std::string key_of_pair(std::size_t i, std::size_t n)
{
	return n == 1 ? "certificate" : "certificate[" + std::to_string(i) + ']';
}

/* Reads the file of that key, if it is set, and keeps the first failure. */
template <class Read>
void tls_files::note(const std::string &key, const std::string &path, const Read &read)
{
	std::string text;
	std::string why;
	if (!path.empty() && !(this->*read)(path, text, why) && unread_.empty())
		unread_ = key + ": " + why;
}

tls_files tls_files::of(const tls_server_settings &settings)
{
	tls_files made;
	const auto &pairs = settings.certificates;
	for (std::size_t i = 0; i < pairs.size(); i++)
		for (const auto &name : {pairs[i].chain, pairs[i].key})
			made.note(key_of_pair(i, pairs.size()), name, &tls_files::read);
	made.note("client_ca", settings.client_ca, &tls_files::read_authorities);
	made.note("client_crl", settings.client_crl, &tls_files::read);
	return made;
}

tls_files tls_files::of(const tls_client_settings &settings)
{
	tls_files made;
	made.note("ca", settings.ca, &tls_files::read_authorities);
	made.note("crl", settings.crl, &tls_files::read);
	for (const auto &name : {settings.certificate.chain, settings.certificate.key})
		made.note(key_of_pair(0, 1), name, &tls_files::read);
	return made;
}

bool tls_files::read(const std::string &path, std::string &into, std::string &why)
{
	if (const auto there = texts_.find(path); there != texts_.end()) {
		into = there->second;
		return true;
	}
	if (const auto failed = failures_.find(path); failed != failures_.end()) {
		why = failed->second;
		return false;
	}
	const bool is_read = read_text(path, into, why);
	if (!is_read)
		failures_[path] = why;
	return is_read;
}

bool tls_files::read_text(const std::string &path, std::string &into, std::string &why)
{
	stamps_[path] = stamp_of(path);
	const auto failed = [&](const std::string &text) {
		why = '"' + path + "\" " + text;
		return false;
	};
	const auto cannot = [&](int err) {
		leave_unjudged();
		return failed("cannot be read: " + std::generic_category().message(err) +
			      "; expected a file in PEM");
	};
	/* Opening a FIFO would wait for its writer. */
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const std::unique_ptr<std::FILE, int (*)(std::FILE *)> in(
		fd >= 0 ? fdopen(fd, "r") : nullptr, std::fclose);
	struct stat about {
	};
	if (!in || fstat(fd, &about) != 0) {
		const int err = errno;
		if (!in && fd >= 0)
			close(fd);
		return cannot(err);
	}
	if (S_ISDIR(about.st_mode))
		return cannot(EISDIR);
	if (!S_ISREG(about.st_mode))
		return failed("is not a regular file; expected a file in PEM");
	std::string text;
	char chunk[16384];
	for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, in.get())) > 0;) {
		text.append(chunk, n);
		if (text.size() > largest_pem)
			return failed("is larger than 64 MiB");
	}
	if (std::ferror(in.get()))
		return cannot(errno);
	/* The library mistakes a text without this for the name of a file. */
	if (text.find("-----BEGIN") == text.npos)
		return failed("has nothing in PEM; expected text with \"-----BEGIN\"");
	if (text.find('\0') != text.npos)
		return failed("is not text; expected a file in PEM");
	into = texts_.emplace(path, std::move(text)).first->second;
	return true;
}

bool tls_files::read_authorities(const std::string &path, std::string &into, std::string &why)
{
	if (!is_folder(path))
		return read(path, into, why);
	if (const auto failed = failures_.find(path); failed != failures_.end()) {
		why = failed->second;
		return false;
	}
	into = path;
	return true;
}

bool tls_files::is_folder(const std::string &path)
{
	if (const auto known = folders_.find(path); known != folders_.end())
		return known->second;
	struct stat is {
	};
	const bool is_one = stat(path.c_str(), &is) == 0 && S_ISDIR(is.st_mode);
	folders_[path] = is_one;
	if (is_one)
		note_names(path);
	return is_one;
}

void tls_files::note_names(const std::string &folder)
{
	stamps_[folder] = stamp_of(folder);
	std::error_code failed;
	for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
	     at.increment(failed))
		if (is_of_a_hash(at->path().filename().native()))
			stamps_[at->path().native()] = stamp_of(at->path().native());
	if (!failed || failed == std::errc::permission_denied)
		return;
	leave_unjudged();
	failures_[folder] = '"' + folder + "\" cannot be listed: " + failed.message();
}

std::string tls_files::stamps_of_folder(const std::string &path) const
{
	const std::string in = path.ends_with('/') ? path : path + '/';
	std::string text;
	for (const auto &[name, stamp] : stamps_)
		if (name == path || (name.starts_with(in) &&
				     is_of_a_hash(std::string_view(name).substr(in.size()))))
			for (const auto each : stamp)
				text += ' ' + std::to_string(each);
	return text;
}

} // namespace relay

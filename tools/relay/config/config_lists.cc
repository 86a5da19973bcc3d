/* SPDX-License-Identifier: MIT */
#include "config/config_lists.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <variant>

namespace relay
{
namespace
{

/* Enough for half a million networks or names. */
constexpr std::size_t largest_list = std::size_t{16} << 20;

/* How many errors of one list are shown; a file of another kind would have one per line. */
constexpr std::size_t most_errors = 10;

/* The text of the file. If it cannot be read, returns nothing, and why has the reason; is_unread:
 * the reason is not the file, but the system. */
std::optional<std::string> text_of(const std::string &file, std::string &why, bool &is_unread)
{
	const auto cannot = [&](int err) {
		why = "cannot be read: " + std::generic_category().message(err);
		is_unread = true;
		return std::nullopt;
	};
	/* Opening a FIFO would wait for its writer. */
	const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
	if (!S_ISREG(about.st_mode)) {
		why = "is not a regular file";
		return std::nullopt;
	}
	std::string text;
	char chunk[16384];
	for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, in.get())) > 0;) {
		text.append(chunk, n);
		if (text.size() > largest_list) {
			why = "is larger than 16 MiB";
			return std::nullopt;
		}
	}
	if (std::ferror(in.get()))
		return cannot(errno);
	return text;
}

std::string_view entry_of(std::string_view line)
{
	constexpr std::string_view spaces = " \t\r";
	line = line.substr(0, line.find('#'));
	const auto first = line.find_first_not_of(spaces);
	return first == line.npos ? std::string_view{}
				  : line.substr(first, line.find_last_not_of(spaces) + 1 - first);
}

/* Quotes an entry for a message. It is shortened, because the line may contain anything. */
std::string quoted(std::string_view entry)
{
	constexpr std::size_t most = 60;
	return '"' + to_printable(entry.substr(0, most)) + (entry.size() > most ? "...\"" : "\"");
}

} // namespace

list_file read_list(section &in, const toml::node &node, std::string_view key,
		    const std::string &file, const char *what, const entry_reader &read)
{
	list_file made{.key = std::string(key), .file = file, .before = stamp_of(file)};
	std::string why;
	bool is_unread = false;
	const auto text = text_of(file, why, is_unread);
	if (is_unread)
		in.note_unread();
	if (!text) {
		in.complain(node, key, file + ": " + why + "; expected a file that can be read");
		return made;
	}
	auto &entries = made.entries;
	std::size_t errors = 0;
	std::size_t number = 0;
	for (std::string_view rest = *text; !rest.empty();) {
		const auto end = std::min(rest.find('\n'), rest.size());
		const auto entry = entry_of(rest.substr(0, end));
		rest.remove_prefix(std::min(end + 1, rest.size()));
		number++;
		if (entry.empty())
			continue;
		entries++;
		const auto problem = read(entry);
		if (problem && errors++ < most_errors)
			in.complain(node, key,
				    file + ':' + std::to_string(number) + ": " + quoted(entry) +
					    ": " + *problem);
	}
	if (errors > most_errors)
		in.complain(node, key,
			    file + ": " + std::to_string(errors - most_errors) +
				    " further lines are wrong");
	if (entries == 0 && what)
		in.complain(node, key,
			    file + ": has no " + what + "; expected at least one, one per line");
	return made;
}

void read_network_file(section &in, std::string_view key, const char *what, ip_networks &into,
		       std::vector<list_file> &files)
{
	std::string file;
	if (!in.nonempty(key, file))
		return;
	files.push_back(read_list(in, *in.take(key), key, file, what,
				  [&into](std::string_view entry) -> std::optional<std::string> {
					  auto one = ip_network::parse(entry);
					  if (auto *const problem = std::get_if<std::string>(&one))
						  return std::move(*problem);
					  into.push_back(std::get<ip_network>(one));
					  return std::nullopt;
				  }));
}

} // namespace relay

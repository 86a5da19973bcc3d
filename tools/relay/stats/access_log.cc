/* SPDX-License-Identifier: MIT */
#include "stats/access_log.hpp"

#include "base/in_time.hpp"
#include "base/owned_fd.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The most bytes per write to a file: enough for few calls, and little memory. */
constexpr std::size_t bytes_most = 64 * 1024;

/* Opens the file of the log. The group may read it, and no other users, because it has the
 * addresses of clients. A FIFO that nobody reads is an error, because opening it would wait for
 * a reader. */
int open_file(const std::string &path)
{
	return ::open(path.c_str(),
		      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

/* The error of open_file() in words. */
std::string explain(int error)
{
	return error == ENXIO ? "nobody reads the FIFO" : std::strerror(error);
}

/* A file that was opened, or why it was not. */
struct opened_file {
	explicit opened_file(const std::string &path)
	    : fd(open_file(path)), error(fd.get() < 0 ? errno : 0)
	{
	}

	owned_fd fd;
	int error;
};

} // namespace

std::optional<std::string> log_target_problem(const std::string &target)
{
	if (target.empty() || target == "stderr" || target == "stdout" || is_syslog(target))
		return std::nullopt;
	if (target.starts_with("fd:")) {
		const auto number = std::string_view(target).substr(3);
		if (!number.empty() && number.size() < 7 &&
		    number.find_first_not_of("0123456789") == number.npos)
			return std::nullopt;
		return '"' + target + "\" is not a descriptor; expected its number, such as fd:3";
	}
	const auto slash = target.rfind('/');
	const std::string folder = slash == target.npos ? "." : target.substr(0, slash + 1);
	struct stat found;
	if (stat(folder.c_str(), &found) < 0)
		return '"' + target + "\": folder " + folder + ": " + std::strerror(errno) +
		       "; expected a folder that is there";
	if (stat(target.c_str(), &found) == 0 && S_ISDIR(found.st_mode))
		return '"' + target + "\" is a folder; expected a file";
	return std::nullopt;
}

std::unique_ptr<access_log> access_log::open(const std::string &target, const log_format &format,
					     std::string &why, std::size_t queue)
{
	const auto make = [&](int fd, bool owned) {
		return std::unique_ptr<access_log>(
			new access_log(target, fd, owned, format, queue));
	};
	if (target == "stderr")
		return make(STDERR_FILENO, false);
	if (target == "stdout")
		return make(STDOUT_FILENO, false);
	if (target.starts_with("fd:")) {
		int fd = -1;
		const char *const end = target.data() + target.size();
		const auto [stop, error] = std::from_chars(target.data() + 3, end, fd);
		if (error != std::errc() || stop != end || fd < 0 || fcntl(fd, F_GETFL) < 0 ||
		    (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
			why = "access log \"" + target +
			      "\" is not an open descriptor that can be written to";
			return nullptr;
		}
		return make(fd, false);
	}
	if (is_syslog(target)) {
		if (const auto problem = event_target_problem(target)) {
			why = "access log \"" + target + "\" " + *problem;
			return nullptr;
		}
		auto socket = std::make_unique<syslog_socket>(target);
		const int fd = socket->descriptor();
		if (fd < 0) {
			why = "cannot open a socket for the access log: " + explain(errno);
			return nullptr;
		}
		return std::unique_ptr<access_log>(
			new access_log(target, fd, false, format, queue, std::move(socket)));
	}
	const int fd = open_file(target);
	if (fd < 0) {
		why = "cannot open the access log " + target + ": " + explain(errno);
		return nullptr;
	}
	return make(fd, true);
}

access_log::access_log(std::string target, int fd, bool owned, const log_format &format,
		       std::size_t queue, std::unique_ptr<syslog_socket> socket)
    : target_(std::move(target)), path_(owned ? target_ : ""), format_(format), owned_(owned),
      socket_(std::move(socket)), queue_(queue), fd_(fd), is_file_(is_regular_file(fd)),
      piece_(is_file_ || socket_ ? bytes_most : log_line_most)
{
}

access_log::~access_log()
{
	if (owned_)
		::close(fd_);
}

void access_log::write(const access_entry &entry) noexcept
try {
	if (!queue_.try_send(to_log_line(entry, format_)))
		dropped_.add();
} catch (const std::exception &) {
	dropped_.add(); /* no memory */
}

void access_log::start()
{
	writing_ = sn::spawn([this] { run(); }, {.name = "access log"});
}

void access_log::reopen() noexcept
{
	if (path_.empty())
		return;
	reopen_.store(true);
	try {
		/* An empty line wakes the task. If the queue is full, the task is awake. */
		static_cast<void>(queue_.try_send(std::string()));
	} catch (const std::exception &) {
		/* There is no memory; the next line wakes the task. */
	}
}

bool access_log::close()
{
	closing_.store(true);
	queue_.close();
	return ends_by(writing_, sn::after(path_patience));
}

void access_log::run()
{
	std::string batch;
	for (;;) {
		batch = std::exchange(held_, {});
		if (batch.empty()) {
			auto received = queue_.recv();
			if (!received)
				return; /* the queue is closed and empty */
			batch = *std::move(received);
		}
		try {
			fill_and_put(batch);
		} catch (const std::exception &) {
			dropped_.add(); /* no memory; at least one line is lost */
		}
	}
}

void access_log::fill_and_put(std::string &batch)
{
	if (reopen_.exchange(false))
		open_anew();
	/* The notice of lost lines precedes the lines that follow the gap. */
	const auto dropped = dropped_.get();
	const bool notice = dropped != reported_;
	if (notice)
		batch.insert(0, dropped_line(dropped - reported_, format_));
	while (auto more = queue_.try_recv()) {
		if (batch.size() + more->size() > piece_) {
			held_ = *std::move(more);
			break;
		}
		batch += *more;
	}

	const auto lines = std::ranges::count(batch, '\n');
	const auto lost = put(batch);
	const bool notice_lost = notice && lost == lines;
	if (!notice_lost)
		reported_ = dropped;
	dropped_.add(static_cast<std::uint64_t>(lost - (notice_lost ? 1 : 0)));
}

/* Returns how many lines could not be written. */
std::ptrdiff_t access_log::put(std::string_view batch)
{
	while (!batch.empty()) {
		/* Writes whole lines, except the rest of a line of which a part has been
		 * written. */
		auto piece = batch.substr(0, piece_);
		/* While closing, do not wait long for a reader that does not read, or slowly. */
		if (give_up_ == sn::no_deadline && closing_.load())
			give_up_ = sn::after(1s);
		if (piece.size() < batch.size())
			piece = piece.substr(0, piece.rfind('\n') + 1);
		int error = 0;
		const auto written = write_now(piece, error);
		batch.remove_prefix(written);
		if (error == 0) {
			failing_ = false;
			continue;
		}
		/* The target is full, and the last write ended with a whole line, so the file
		 * may be replaced here. */
		if (error == EAGAIN && reopen_.exchange(false))
			open_anew();
		if (error == EAGAIN && may_wait())
			continue;
		if (error != EAGAIN && !std::exchange(failing_, true))
			emit(event_kind::log_failed,
			     "cannot write to the access log " + target_ +
				     ", so its lines are dropped: " + std::strerror(error),
			     {{"log", target_}, {"error", std::strerror(error)}});
		return std::ranges::count(batch, '\n');
	}
	return 0;
}

/* give_up_ is none until the log closes: lines wait in the queue for a target that is full. */
bool access_log::may_wait() const noexcept
{
	return give_up_ == sn::no_deadline || sn::now() < give_up_;
}

/* Returns how many bytes were written. error: 0 if none stopped it; EAGAIN: no room for now. */
std::size_t access_log::write_now(std::string_view piece, int &error)
{
	return sn::blocking([&]() -> std::size_t {
		std::size_t written = 0;
		if (socket_)
			return send_now(piece, error);
		/* POLLOUT means room for a piece. The wait is bounded, so that closing is
		 * noticed. */
		const int wait_ms = may_wait() ? 100 : 0;
		pollfd out{fd_, POLLOUT, 0};
		if (!is_file_ && poll(&out, 1, wait_ms) <= 0) {
			error = EAGAIN;
			return 0;
		}
		while (written < piece.size()) {
			const auto n = ::write(fd_, piece.data() + written, piece.size() - written);
			if (n < 0 && errno != EINTR) {
				error = errno;
				break;
			}
			if (n > 0)
				written += static_cast<std::size_t>(n);
		}
		/* Another process has made the target non-blocking, so this limits the rate of
		 * retries. */
		if (error == EAGAIN)
			usleep(1000);
		return written;
	});
}

/* The same for syslog, each line by itself. error is 0 also if time was up before the end. */
std::size_t access_log::send_now(std::string_view piece, int &error)
{
	std::size_t sent = 0;
	const auto until = sn::after(100ms);
	do {
		const auto line = piece.substr(sent, piece.find('\n', sent) - sent);
		error = socket_->send("access", line, may_wait());
		if (error == EMSGSIZE) {
			/* The socket never takes this line, but others. */
			dropped_.add();
			error = 0;
		}
		if (error == 0)
			sent += line.size() + 1;
	} while (sent < piece.size() && error == 0 && sn::now() < until);
	return sent;
}

void access_log::open_anew()
{
	auto opened = call_in_time([path = path_] { return opened_file(path); });
	if (!opened || opened->error != 0) {
		const std::string error = opened ? explain(opened->error) : no_answer;
		emit(event_kind::log_failed,
		     "cannot reopen the access log " + path_ +
			     ", so the old file stays in use: " + error,
		     {{"log", path_}, {"error", error}});
		return;
	}
	::close(std::exchange(fd_, opened->fd.release()));
	is_file_ = is_regular_file(fd_);
	piece_ = is_file_ ? bytes_most : log_line_most;
}

} // namespace relay

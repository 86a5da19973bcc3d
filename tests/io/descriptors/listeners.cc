// SPDX-License-Identifier: MIT
//
// Listeners, TCP and Unix ones of both types, opened by the library or adopted. Tasks connect, one
// task accepts, and each connection gets a task that answers. Each question is received once, and
// answered. The listener may be closed while tasks use it; otherwise the last task that has asked
// closes it while the other one accepts.
#include "io/descriptors/play.h"
#include "support/net.h"

namespace oracle
{
namespace
{

enum class Kind { tcp, unix_stream, unix_packets };

class ListenerPlay : public Play
{
public:
	explicit ListenerPlay(uint64_t seed)
	    : Play("listener", seed), kind_(Kind(random_.below(3))),
	      connectors_(1 + int(random_.below(3))), each_(1 + int(random_.below(8))),
	      left_(connectors_), seen_(size_t(connectors_ * each_))
	{
		for (Reasons *each : {&asking_, &answering_})
			each->peer_gone = !orderly();
		beginning_.peer_gone = true;
	}

private:
	// ---- opening ----

	int plain_listener()
	{
		const sockaddr any = {AF_UNIX, {}}; // asks the system to choose an abstract name
		int fd;

		if (kind_ == Kind::tcp) {
			fd = plain_socket(SOCK_STREAM);
		} else {
			fd = socket(AF_UNIX,
				    kind_ == Kind::unix_packets ? SOCK_SEQPACKET : SOCK_STREAM, 0);
			EXPECT_EQ(0, bind(fd, &any, sizeof any.sa_family));
		}
		EXPECT_EQ(0, listen(fd, 100));
		return fd;
	}

	void open() override
	{
		struct sn_unix_options options = {};
		char text[SN_ADDRESS_MAX > SN_UNIX_ADDRESS_MAX ? SN_ADDRESS_MAX
							       : SN_UNIX_ADDRESS_MAX];

		count();
		if (kind_ == Kind::tcp) {
			if (random_.below(2)) {
				EXPECT_EQ(0, sn_tcp_listen(&tcp_, "127.0.0.1:0")) << where();
			} else {
				EXPECT_EQ(0, sn_tcp_listener_adopt(&tcp_, plain_listener()))
					<< where();
			}
			EXPECT_LT(0, sn_tcp_listener_address(tcp_, text, sizeof text));
		} else {
			options.type = type();
			if (random_.below(2)) {
				EXPECT_EQ(0, sn_unix_listen(&unix_, "@", &options)) << where();
			} else {
				EXPECT_EQ(0, sn_unix_listener_adopt(&unix_, plain_listener()))
					<< where();
			}
			EXPECT_LT(0, sn_unix_listener_address(unix_, text, sizeof text));
		}
		address_ = text;
	}

	sn_unix_type type() const
	{
		return kind_ == Kind::unix_packets ? SN_UNIX_SEQPACKET : SN_UNIX_STREAM;
	}

	// ---- the tasks ----

	void start() override
	{
		go([this](Random &random) { accept_all(random); });
		for (int i = 0; i < connectors_; i++)
			go([this, i](Random &random) {
				for (int k = 0; k < each_ && !sn_cancelled() && !failed(); k++)
					ask(random, uint32_t(i * each_ + k));
				if (--left_ == 0 && orderly())
					close();
			});
		if (random_.below(2))
			go([this](Random &random) {
				for (int i = 0; i < 5 && !sn_cancelled(); i++)
					if (!wait_for(random, false))
						return;
			});
	}

	int accept(sn_stream **conn)
	{
		if (kind_ == Kind::tcp) {
			sn_tcp *made = nullptr;
			const int err = sn_tcp_accept(tcp_, &made);

			*conn = sn_tcp_stream(made);
			return err;
		}
		sn_unix *made = nullptr;
		const int err = sn_unix_accept(unix_, &made);

		*conn = sn_unix_stream(made);
		return err;
	}

	int set_deadline(int64_t deadline)
	{
		return kind_ == Kind::tcp ? sn_tcp_listener_set_deadline(tcp_, deadline)
					  : sn_unix_listener_set_deadline(unix_, deadline);
	}

	int fd() const
	{
		return kind_ == Kind::tcp ? sn_tcp_listener_fd(tcp_) : sn_unix_listener_fd(unix_);
	}

	// Until the listener is closed.
	void accept_all(Random &random)
	{
		for (;;) {
			if (random.below(4) == 0 && !wait_for(random, true))
				return;
			const int64_t deadline = some_deadline(random);
			sn_stream *conn = nullptr;

			if (deadline)
				set_deadline(deadline);
			const int err = int(call(random, [&] { return accept(&conn); }));
			if (deadline)
				set_deadline(SN_NO_DEADLINE);
			if (err == 0) {
				if (!go(random, [this, conn](Random &own) { answer(own, conn); }))
					sn_stream_close(conn);
				continue;
			}
			EXPECT_EQ(nullptr, conn) << where();
			if ((err != again && !expected(err, why_, deadline, "accept")) ||
			    !goes_on(err))
				return;
		}
	}

	bool wait_for(Random &random, bool alone)
	{
		if (!gate_.enter())
			return true;
		const int number = fd();

		if (number < 0) {
			EXPECT_TRUE(why_.closed) << where();
			gate_.leave();
			return true;
		}
		return wait(random, gate_, number, POLLIN, why_, sn_now() + some_time(random) / 2,
			    alone) != again;
	}

	// ---- a connection ----

	// An address may belong to another play when a question arrives there, so each question
	// names its play.
	struct Words {
		uint64_t play, number;
	};

	// Returns whether all bytes were written.
	bool say(Random &random, sn_stream *conn, Words words, const Reasons &why)
	{
		struct iovec piece = {&words, sizeof words};
		struct sn_unix_message message = {};
		size_t done = 0;
		ssize_t n;

		message.data = &words;
		message.size = sizeof words;
		do {
			n = call(random, [&] {
				return kind_ == Kind::unix_packets
					       ? sn_unix_send((sn_unix *)conn, &message)
					       : sn_stream_writev_all(conn, &piece, 1, &done);
			});
			if (n < 0 && n != again && !expected(n, why, 0, "say"))
				return false;
		} while (n < 0 && goes_on(n));
		return n == sizeof words;
	}

	// Returns 1 for a question or answer; 0 at the end of the connection; -1 if the call failed
	// for an allowed reason.
	int hear(Random &random, sn_stream *conn, Words *words, const Reasons &why)
	{
		struct sn_unix_message message = {};
		size_t done = 0;
		ssize_t n;

		message.data = words;
		message.size = sizeof *words;
		do {
			n = call(random, [&] {
				return kind_ == Kind::unix_packets
					       ? sn_unix_recv((sn_unix *)conn, &message)
					       : sn_stream_read_full(conn, words, sizeof *words,
								     &done);
			});
			if (n < 0 && n != again && !expected(n, why, 0, "hear"))
				return -1;
		} while (n < 0 && goes_on(n));
		if (n > 0) {
			EXPECT_EQ(ssize_t(sizeof *words), n) << where() << "half a question";
		}
		return n < 0 ? -1 : n > 0;
	}

	void answer(Random &random, sn_stream *conn)
	{
		Words words = {};

		// The task that asks may have given up while it was connecting.
		if (hear(random, conn, &words, beginning_) == 1 && words.play == seed()) {
			EXPECT_LT(words.number, seen_.size()) << where();
			if (words.number < seen_.size())
				seen_[words.number]++;
			if (say(random, conn, {seed(), ~words.number}, answering_)) {
				EXPECT_LE(hear(random, conn, &words, answering_), 0) << where();
			}
		}
		EXPECT_EQ(0, sn_stream_close(conn)) << where();
	}

	int connect(sn_stream **conn, int64_t deadline)
	{
		if (kind_ == Kind::tcp) {
			sn_tcp *made = nullptr;
			const int err = sn_tcp_connect(&made, address_.c_str(), deadline);

			*conn = sn_tcp_stream(made);
			return err;
		}
		sn_unix *made = nullptr;
		const int err = sn_unix_connect(&made, address_.c_str(), type(), deadline);

		*conn = sn_unix_stream(made);
		return err;
	}

	void ask(Random &random, uint64_t number)
	{
		sn_stream *conn = nullptr;
		int err;

		do {
			const int64_t deadline = some_deadline(random);

			err = int(call(random, [&] { return connect(&conn, deadline); }));
			EXPECT_EQ(err == 0, conn != nullptr) << where();
			if (err < 0 && err != again && !expected(err, asking_, deadline, "connect"))
				return;
		} while (err < 0 && goes_on(err));
		if (err < 0)
			return;
		Words words = {};
		if (say(random, conn, {seed(), number}, asking_)) {
			const int heard = hear(random, conn, &words, asking_);

			if (heard == 1) {
				EXPECT_EQ(seed(), words.play) << where();
				EXPECT_EQ(~number, words.number) << where() << "another's answer";
			} else if (heard == 0) {
				EXPECT_FALSE(orderly()) << where() << "no answer";
			}
		}
		EXPECT_EQ(0, sn_stream_close(conn)) << where();
	}

	// ---- the end ----

	void close()
	{
		if (closing_.exchange(true))
			return;
		EXPECT_EQ(0, sn_cancel_mask());
		why_.closed = true;
		EXPECT_TRUE(gate_.close(fd())) << where() << "waits do not park";
		EXPECT_EQ(0, kind_ == Kind::tcp ? sn_tcp_listener_close(tcp_)
						: sn_unix_listener_close(unix_))
			<< where();
		count();
		EXPECT_TRUE(gate_.left()) << where() << "the close has not ended all waits";
		EXPECT_EQ(0, sn_cancel_unmask());
	}

	void break_it() override { close(); }

	void finish() override
	{
		sn_stream *none = nullptr;

		close();
		EXPECT_EQ(-EBADF, accept(&none)) << where();
		for (const auto &each : seen_)
			if (orderly()) {
				EXPECT_EQ(1, each) << where() << "a question";
			} else {
				EXPECT_LE(each, 1) << where() << "a question";
			}
	}

	const Kind kind_;
	const int connectors_, each_;
	std::atomic<int> left_; // connectors
	std::vector<std::atomic<int>> seen_;
	sn_tcp_listener *tcp_ = nullptr;
	sn_unix_listener *unix_ = nullptr;
	std::string address_;
	std::atomic<bool> closing_{false};
	Reasons why_, asking_, answering_, beginning_;
	Gate gate_;
};

} // namespace

std::unique_ptr<Play> make_listener_play(uint64_t seed)
{
	return std::make_unique<ListenerPlay>(seed);
}

} // namespace oracle

/* SPDX-License-Identifier: MIT */
/*
 * Downloads with libcurl's multi interface, one task each: a task runs plain code from top to
 * bottom, and is parked while its transfer waits for the network.
 *
 *	example-curl-multi https://example.org/ http://127.0.0.1:8080/ ...
 *	example-curl-multi -n 500 http://127.0.0.1:8080/      (500 times the same)
 *
 * libcurl says which sockets it waits for and for how long (note_socket(), note_timer()), and the
 * task waits for them with sn_fd_wait_any(). A transfer has a handful of sockets at most. Names are
 * resolved by libcurl as it was built to do it, with a thread for each lookup or through c-ares;
 * addresses in numbers need neither.
 */
#include <curl/curl.h>
#include <errno.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A connection that is being made has one socket for each address family. A single transfer
 * never has more. */
#define SOCKETS_MAX 16

#define TRANSFER_MAX 60000000000ll

struct transfer {
	const char *url;
	long long bytes;
	struct pollfd sockets[SOCKETS_MAX];
	size_t socket_count;
	int64_t timer; /* when libcurl wants to be called at the latest */
};

static size_t count_bytes(char *data, size_t size, size_t n, void *arg)
{
	(void)data;
	((struct transfer *)arg)->bytes += (long long)(size * n);
	return size * n;
}

/* libcurl calls this when it begins to wait for a socket, waits for other events of it, or
 * stops. */
static int note_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
	struct transfer *transfer = arg;
	size_t i = 0;

	(void)easy;
	(void)of_socket;
	while (i < transfer->socket_count && transfer->sockets[i].fd != fd)
		i++;
	if (what == CURL_POLL_REMOVE) {
		if (i < transfer->socket_count)
			transfer->sockets[i] = transfer->sockets[--transfer->socket_count];
		return 0;
	}
	if (i == SOCKETS_MAX)
		return -1; /* ends the transfer with an error */
	if (i == transfer->socket_count)
		transfer->socket_count++;
	transfer->sockets[i].fd = fd;
	transfer->sockets[i].events =
		(short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0));
	return 0;
}

static int note_timer(CURLM *multi, long ms, void *arg)
{
	(void)multi;
	((struct transfer *)arg)->timer = ms < 0 ? SN_NO_DEADLINE : sn_now() + ms * 1000000ll;
	return 0;
}

/* Tells libcurl what the wait has found. *running: whether the transfer continues. */
static CURLMcode continue_with(CURLM *multi, struct transfer *transfer, int found, int *running)
{
	struct pollfd ready[SOCKETS_MAX];
	size_t n = transfer->socket_count;
	CURLMcode err = CURLM_OK;

	if (found == 0) {
		transfer->timer = SN_NO_DEADLINE; /* libcurl sets another if it needs one */
		return curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, running);
	}
	/* A copy: the list changes while libcurl works. */
	memcpy(ready, transfer->sockets, n * sizeof *ready);
	for (size_t i = 0; i < n && err == CURLM_OK; i++) {
		int what = (ready[i].revents & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) |
			   (ready[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
			   (ready[i].revents & (POLLERR | POLLNVAL) ? CURL_CSELECT_ERR : 0);

		if (what)
			err = curl_multi_socket_action(multi, ready[i].fd, what, running);
	}
	return err;
}

/* What curl_easy_perform() does, except that the task parks instead of its thread. */
static CURLcode perform(CURL *easy, CURLM *multi, struct transfer *transfer)
{
	int left, running = 1;
	CURLMsg *message;
	CURLMcode err;

	transfer->timer = SN_NO_DEADLINE;
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, note_socket);
	curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, transfer);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, note_timer);
	curl_multi_setopt(multi, CURLMOPT_TIMERDATA, transfer);
	err = curl_multi_add_handle(multi, easy);
	while (err == CURLM_OK && running) {
		int found =
			sn_fd_wait_any(transfer->sockets, transfer->socket_count, transfer->timer);

		if (found == -ETIMEDOUT)
			found = 0;
		if (found < 0)
			return CURLE_ABORTED_BY_CALLBACK; /* the scope was cancelled */
		err = continue_with(multi, transfer, found, &running);
	}
	message = curl_multi_info_read(multi, &left);
	return err == CURLM_OK && message ? message->data.result : CURLE_FAILED_INIT;
}

static int download(void *arg)
{
	struct transfer *transfer = arg;
	char why[CURL_ERROR_SIZE] = "";
	CURLM *multi = curl_multi_init();
	CURL *easy = curl_easy_init();
	CURLcode result = CURLE_OUT_OF_MEMORY;
	long status = 0;

	if (multi && easy) {
		curl_easy_setopt(easy, CURLOPT_URL, transfer->url);
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
		curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
		/* libcurl must not use SIGALRM, which would interrupt the thread of some other
		 * task. */
		curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1l);
		curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(TRANSFER_MAX / 1000000));
		result = perform(easy, multi, transfer);
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		curl_multi_remove_handle(multi, easy);
	}
	curl_easy_cleanup(easy);
	curl_multi_cleanup(multi);
	if (result != CURLE_OK) {
		fprintf(stderr, "%s: %s\n", transfer->url, *why ? why : curl_easy_strerror(result));
		return 1;
	}
	printf("%s: %ld, %lld bytes\n", transfer->url, status, transfer->bytes);
	return 0;
}

struct order {
	char **urls;
	size_t url_count, times;
};

/* Returns how many transfers failed. */
static int download_all(void *arg)
{
	const struct order *order = arg;
	size_t n = order->url_count * order->times, spawned;
	struct transfer *transfers = calloc(n, sizeof *transfers);
	sn_task **tasks = calloc(n, sizeof *tasks);
	int failed = 0, result;

	for (spawned = 0; transfers && tasks && spawned < n; spawned++) {
		transfers[spawned].url = order->urls[spawned % order->url_count];
		if (sn_spawn(&tasks[spawned], download, &transfers[spawned], NULL) < 0)
			break;
	}
	if (spawned < n)
		fprintf(stderr, "out of memory: %zu transfers of %zu were begun\n", spawned, n);
	failed = (int)(n - spawned);
	for (size_t i = 0; i < spawned; i++) {
		sn_join(tasks[i], &result);
		failed += result;
	}
	free(tasks);
	free(transfers);
	return failed;
}

int main(int argc, char **argv)
{
	struct order order = {argv + 1, (size_t)(argc > 0 ? argc - 1 : 0), 1};
	char *end = NULL;
	int failed;

	if (argc > 3 && strcmp(argv[1], "-n") == 0) {
		order = (struct order){argv + 3, (size_t)argc - 3, strtoul(argv[2], &end, 10)};
		if (*end || order.times == 0 || order.times > 100000)
			order.url_count = 0;
	}
	if (order.url_count == 0) {
		fprintf(stderr, "usage: %s [-n TIMES] URL...\n", argv[0]);
		return 2;
	}
	/* This is not thread-safe, so it is called before any task runs. */
	curl_global_init(CURL_GLOBAL_DEFAULT);
	failed = sn_run(download_all, &order);
	curl_global_cleanup();
	if (failed < 0)
		fprintf(stderr, "%s: %s\n", argv[0], strerror(-failed));
	return failed != 0;
}

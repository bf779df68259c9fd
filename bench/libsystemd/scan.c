/* Reads every field of every entry of a journal file through libsystemd, and
 * prints how many entries, fields and bytes there were, and a sum that is
 * another one if a field was not read. */
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-journal.h>

static int checked(const char *what, int r)
{
	if (r < 0) {
		fprintf(stderr, "%s: %d\n", what, r);
		exit(1);
	}
	return r;
}

int main(int argc, char **argv)
{
	const char *paths[] = {argv[argc - 1], NULL};
	unsigned long long entries = 0, fields = 0, bytes = 0, sum = 0;
	sd_journal *j;

	checked("open", sd_journal_open_files(&j, paths, 0));
	checked("threshold", sd_journal_set_data_threshold(j, 0));
	while (checked("next", sd_journal_next(j)) > 0) {
		const void *data;
		size_t n;

		entries++;
		sd_journal_restart_data(j);
		while (checked("data", sd_journal_enumerate_available_data(j, &data, &n)) > 0) {
			const unsigned char *p = data;

			fields++;
			bytes += n;
			sum += p[0] + p[n - 1];
		}
	}
	printf("%llu entries, %llu fields, %llu bytes, sum %llu\n", entries, fields, bytes, sum);
	sd_journal_close(j);
	return 0;
}

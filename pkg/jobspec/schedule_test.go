package jobspec

import "testing"

func TestScheduleIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{cron: "0 2 * *"}`:                                           `job.yaml:3:18: schedule.cron: "0 2 * *" has 4 fields, and needs 5: minute, hour, day of the month, month, day of the week`,
		`{cron: "0 25 * * *"}`:                                        `job.yaml:3:18: schedule.cron: the hour "25" is not between 0 and 23`,
		`{cron: "@daily", timeZone: Europe/Berlln}`:                   `job.yaml:3:38: schedule.timeZone "Europe/Berlln" is not a time zone; write one such as Europe/Berlin, or UTC`,
		`{cron: "@daily", overlap: allow}`:                            `job.yaml:3:37: schedule.overlap allow is not supported: runs of a job follow each other; write queue, or use jobs of several names`,
		`{cron: "@daily", catchUp: all}`:                              `job.yaml:3:37: schedule.catchUp all needs overlap: queue, so that the runs follow each other`,
		`{cron: "@daily", limit: 3}`:                                  `job.yaml:3:35: schedule.limit goes with catchUp: all`,
		`{cron: "@daily", catchUp: one, startWithin: 1m}`:             `job.yaml:3:55: schedule.startWithin goes with catchUp: none`,
		`{timeZone: UTC}`:                                             `job.yaml:3:11: schedule.cron is missing; it has five fields, such as "0 2 * * *"`,
		`{cron: "@daily", concurrencyPolicy: forbid}`:                 `job.yaml:3:28: unknown key "concurrencyPolicy"; did you mean "overlap"?`,
		"{cron: \"@daily\"}\nafter: {ok: [b]}":                        `job.yaml:4:8: after does not go with schedule; let the job that is scheduled come first`,
		`{cron: "@daily", overlap: queue, catchUp: all, limit: 1000}`: `job.yaml:3:65: schedule.limit 1000 is not between 1 and 100`,
		`{cron: "@daily", overlap: Forbid}`:                           `job.yaml:3:37: schedule.overlap "Forbid" is not one of forbid, replace, queue; did you mean forbid?`,
	} {
		refused(t, afterFile("a", "schedule: "+text+"\n"), want)
	}
}

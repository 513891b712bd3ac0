/** The job that an account without jobs can run by one press. */
export const EXAMPLE_IMAGE = "base/python:1";
export const EXAMPLE_TASK = "count";

export const EXAMPLE = {
  version: 1,
  name: "first example",
  tasks: [
    {
      name: EXAMPLE_TASK,
      image: EXAMPLE_IMAGE,
      command: [
        'echo "Hello from a task of $HEADWAY_USER."',
        "for i in 1 2 3 4 5; do",
        '  echo "step $i of 5"',
        "  sleep 1",
        "done",
        'python3 -c "print(6 * 7)"',
        "",
      ].join("\n"),
      resources: { cpus: 1, memory: "256MiB" },
      timeout: "2m",
    },
  ],
} as const;

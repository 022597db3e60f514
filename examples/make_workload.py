"""Make the small workload of the examples: the same lines every time.

    python examples/make_workload.py > examples/workload.swf

Forty jobs in about two hours for a machine of 16 nodes; sizes are powers of two, users ask for
up to four times what they need, and one of them asks for too little.
"""

import random

JOBS = 40
FIELDS = "{job} {submit} -1 {runtime} {size} -1 -1 {size} {walltime} -1 1 {user} 1 -1 -1 -1 -1 -1"


def main():
    draw = random.Random(1)
    print("; Version: 2.2")
    print("; Computer: none; made by examples/make_workload.py")
    print(f"; MaxJobs: {JOBS}")
    print("; MaxNodes: 16")
    print("; UnixStartTime: 0")
    submit = 0
    for job in range(1, JOBS + 1):
        submit += round(draw.expovariate(1 / 180))
        runtime = round(draw.lognormvariate(6.5, 1.2)) + 1
        walltime = 60 * -(-int(runtime * draw.uniform(1, 4)) // 60)
        if job == 17:
            walltime = max(60, runtime // 2)
        print(
            FIELDS.format(
                job=job,
                submit=submit,
                runtime=runtime,
                size=2 ** draw.choice((0, 0, 1, 2, 2, 3, 4)),
                walltime=walltime,
                user=draw.randrange(1, 5),
            )
        )


if __name__ == "__main__":
    main()

"""Why a collective is there: the annotations behind the shardings that meet."""

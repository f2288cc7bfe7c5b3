"""Line charts as small SVG files, without any library.

    chart("x.svg", "Title", "x axis", "y axis", {"series": [(x, y), ..]}, log_x=True)
"""

import math

COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#a16207", "#be185d")
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 36, 48


def short(number):
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.3g}"


def ticks(most):
    """Round numbers from 0 to at least `most`."""
    step = 10 ** math.floor(math.log10(most / 4)) if most > 0 else 1
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if most / (step * factor) <= 6)
    return [at * step for at in range(math.ceil(most / step) + 1)]


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def chart(path, title, x_name, y_name, series, log_x=False):
    """Writes one chart. `series`: name to points, in the order of the legend."""
    points = [point for line in series.values() for point in line]
    xs = sorted({x for x, _ in points})
    scale = math.log if log_x else float
    low, high = scale(xs[0]), scale(xs[-1])
    marks = ticks(max(y for _, y in points))

    def across(x):
        return LEFT + (scale(x) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def up(y):
        return HEIGHT - BOTTOM - y / marks[-1] * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escaped(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escaped(x_name)}</text>',
        f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">{escaped(y_name)}</text>',
    ]
    for y in marks:
        out.append(f'<path d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{short(y)}</text>')
    for x in xs:
        out.append(f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(x)}</text>')
    for at, (name, line) in enumerate(series.items()):
        colour = COLOURS[at % len(COLOURS)]
        path_of = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        y = TOP + 10 + 18 * at
        out.append(f'<path d="M{WIDTH - RIGHT + 10} {y - 4}h18" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 34}" y="{y}">{escaped(name)}</text>')
    out.append("</svg>\n")
    with open(path, "w") as file:
        file.write("\n".join(out))

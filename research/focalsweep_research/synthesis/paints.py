"""What the surfaces of a world are painted with: plain walls, fine cloth, wood or tiles, and things of all colours."""

from __future__ import annotations

from focalsweep_research.synthesis.stage import Dice, Paint

TONES = {  # of plain-and-hard worlds: walls and floors, then things
    "dark before white": ((0.8, 0.95), (0.02, 0.08)),
    "white on white": ((0.75, 0.95), (0.7, 0.95)),
    "black on black": ((0.02, 0.08), (0.02, 0.1)),
    "grey on grey": ((0.3, 0.6), (0.25, 0.65)),
    "white before dark": ((0.03, 0.1), (0.7, 0.95)),
}


class Palette:
    """The paints of one world: how plain it is, its tones, and the texture whose mean plain surfaces share."""

    def __init__(self, dice: Dice, textures: int, hard: bool) -> None:
        self.dice = dice
        self.textures = textures
        self.hard = hard
        self.plain_share = 0.93 if hard else dice.between(0.1, 0.55)
        self.gloss_share = dice.between(0.05, 0.35)
        self.colourfulness = dice.scale(0.05, 0.5)
        # Texture means differ in colour: plain surfaces share one, so that white on white is white on white.
        self.plain_texture = dice.count(0, textures - 1)
        self.tones = TONES[dice.pick(list(TONES))] if hard else ((0.45, 0.95), (0.05, 1.0))

    def wall(self) -> Paint:
        """Half of all walls are plain, and a quarter nearly so."""
        kind = self.dice.unit()
        tone = self.dice.between(*self.tones[0])
        if self.hard or kind < 0.5:
            return self._paint(tone, self.dice.between(0, 0.05), 0.06)
        if kind < 0.75:
            return self._paint(tone, self.dice.between(0.05, 0.15), 0.1)
        return self._fine(self._paint(tone, self.dice.between(0.25, 1), 0.15))

    def ground(self) -> Paint:
        """Wood, tiles, carpet; seldom plain."""
        tone = self.dice.between(*self.tones[0]) * (1 if self.hard else self.dice.between(0.5, 1))
        kind = self.dice.unit()
        if self.hard or kind < 0.18:
            return self._paint(tone, self.dice.between(0, 0.06), 0.1)
        if kind < 0.45:
            return self.fabric(tone)
        return self._fine(self._paint(tone, self.dice.between(0.25, 1), 0.15))

    def outdoors(self) -> Paint:
        """Grass, stones, bark, brick."""
        return self._fine(self._paint(self.dice.between(0.3, 0.9), self.dice.between(0.4, 1), 0.15))

    def fabric(self, tone: float | None = None) -> Paint:
        """Fine grain: a texel or two a pixel."""
        tone = self.dice.between(*self.tones[1]) if tone is None else tone
        fine = self._paint(tone, self.dice.between(0.15, 1), 0.2)
        return fine._replace(texels_a_px=self.dice.between(1, 2.5), gloss=0.0)

    def thing(self) -> Paint:
        tone = self.dice.between(*self.tones[1])
        if self.dice.chance(self.plain_share):
            return self._paint(tone, self.dice.between(0, 0.06), self.colourfulness)
        if self.dice.chance(0.2):
            return self.fabric(tone)
        return self._paint(tone, self.dice.between(0.1, 1), self.colourfulness)

    def plain(self, low: float, high: float) -> Paint:
        """A plain one of a given tone."""
        return self._paint(self.dice.between(low, high), self.dice.between(0, 0.03), 0.03)

    def print(self) -> Paint:
        """A picture or a label: always textured, but for plain worlds."""
        if self.hard:
            return self.thing()
        return self._paint(self.dice.between(0.6, 1), self.dice.between(0.5, 1), 0.1)

    def shining(self) -> Paint:
        """A window or a lamp."""
        return self._paint(self.dice.scale(2, 10), self.dice.between(0, 0.1), 0.05)._replace(gloss=0.0)

    def _fine(self, paint: Paint) -> Paint:
        """For large surfaces: not one print all over the floor."""
        return paint._replace(texels_a_px=self.dice.scale(0.6, 2.5))

    def _paint(self, tone: float, contrast: float, colour: float) -> Paint:
        dice = self.dice
        plain = contrast <= 0.06
        shift = colour * min(1.0, 2 * tone)
        gloss = dice.scale(0.05, 0.8) if dice.chance(self.gloss_share) else 0.0
        return Paint(
            self.plain_texture if plain else dice.count(0, self.textures - 1),
            dice.scale(0.3, 2.5),
            dice.between(0, 4096),
            dice.between(0, 4096),
            max(0.01, tone + dice.between(-shift, shift)),
            max(0.01, tone + dice.between(-shift, shift)),
            max(0.01, tone + dice.between(-shift, shift)),
            contrast,
            gloss,
            dice.scale(4, 200) if gloss else 4.0,
        )

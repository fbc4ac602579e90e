"""Translate emoji: Slack and Mattermost have names for them (`thumbsup`), agents write characters (👍).

The table holds the frequent names. Any other, such as that of a workspace's own emoji, stays as `:name:`, both ways.
"""

from __future__ import annotations

import re

_TABLE = """
+1 👍 thumbsup 👍 -1 👎 thumbsdown 👎 heart ❤ fire 🔥 tada 🎉 eyes 👀 pray 🙏 clap 👏 ok_hand 👌 wave 👋
raised_hands 🙌 muscle 💪 point_up ☝ point_right 👉 point_left 👈 point_down 👇 handshake 🤝 writing_hand
✍ salute 🫡 saluting_face 🫡 smile 😄 smiley 😃 grinning 😀 grin 😁 blush 😊 slightly_smiling_face 🙂 wink 😉
joy 😂 rolling_on_the_floor_laughing 🤣 sweat_smile 😅 heart_eyes 😍 star-struck 🤩
smiling_face_with_3_hearts 🥰 kissing_heart 😘 sunglasses 😎 hugging_face 🤗 thinking_face 🤔
face_with_raised_eyebrow 🤨 neutral_face 😐 expressionless 😑 face_with_rolling_eyes 🙄 unamused 😒 sob 😭
cry 😢 disappointed 😞 worried 😟 confused 😕 scream 😱 fearful 😨 rage 😡 angry 😠 exploding_head 🤯
sleeping 😴 yawning_face 🥱 face_vomiting 🤮 nauseated_face 🤢 nerd_face 🤓 clown_face 🤡 smiling_imp 😈
innocent 😇 upside_down_face 🙃 shrug 🤷 facepalm 🤦 see_no_evil 🙈 hear_no_evil 🙉 speak_no_evil 🙊 ghost
👻 skull 💀 robot_face 🤖 alien 👽 space_invader 👾 jack_o_lantern 🎃 unicorn_face 🦄 whale 🐳 dove_of_peace
🕊 100 💯 zap ⚡ star ⭐ sparkles ✨ boom 💥 rocket 🚀 trophy 🏆 medal 🏅 gift 🎁 balloon 🎈 champagne 🍾 beers
🍻 coffee ☕ cake 🍰 pizza 🍕 hotdog 🌭 banana 🍌 strawberry 🍓 broken_heart 💔 purple_heart 💜 blue_heart 💙
green_heart 💚 yellow_heart 💛 orange_heart 🧡 white_check_mark ✅ heavy_check_mark ✔ x ❌ no_entry ⛔
no_entry_sign 🚫 warning ⚠ question ❓ exclamation ❗ heavy_plus_sign ➕ heavy_minus_sign ➖ hourglass ⌛
hourglass_flowing_sand ⏳ stopwatch ⏱ alarm_clock ⏰ calendar 📆 memo 📝 pushpin 📌 paperclip 📎 link 🔗
lock 🔒 key 🔑 mag 🔍 bulb 💡 bug 🐛 wrench 🔧 hammer 🔨 gear ⚙ package 📦 email 📧 bell 🔔 loudspeaker 📢
speech_balloon 💬 arrow_up ⬆ arrow_down ⬇ arrow_right ➡ arrow_left ⬅ repeat 🔁 construction 🚧
rotating_light 🚨 red_circle 🔴 large_green_circle 🟢 large_yellow_circle 🟡 large_blue_circle 🔵
large_purple_circle 🟣 large_orange_circle 🟠 large_brown_circle 🟤 white_circle ⚪ black_circle ⚫
large_orange_diamond 🔶 large_blue_diamond 🔷 one 1️⃣ two 2️⃣ three 3️⃣ four 4️⃣ five 5️⃣ six 6️⃣ seven 7️⃣
eight 8️⃣ nine 9️⃣ keycap_ten 🔟 snowflake ❄ sunny ☀ snowman ⛄ christmas_tree 🎄 santa 🎅 new_moon_with_face 🌚
moyai 🗿 cool 🆒 cupid 💘 pill 💊 poop 💩 hankey 💩 middle_finger 🖕 lips 💋 nail_care 💅 sleepy 😪
"""
_CHARACTERS = dict(zip(_TABLE.split()[::2], _TABLE.split()[1::2], strict=True))
_NAMES = {character.replace("\ufe0f", ""): name for name, character in reversed(_CHARACTERS.items())}
_NAME = re.compile(r":?([a-z0-9_+'-]{1,100}):?")
_TONE = re.compile("[\U0001f3fb-\U0001f3ff]")


def to_character(name: str) -> str:
    """Return the emoji of a name, without its skin tone; `:name:` if the table has none."""
    plain = name.partition("::")[0]
    return _CHARACTERS.get(plain, f":{plain}:")


def to_name(emoji: str) -> str | None:
    """Return the name of an emoji, or the name in `:name:`; None for anything else."""
    text = emoji.strip()
    plain = _TONE.sub("", text.replace("\ufe0f", "")).partition("\u200d")[0]
    if plain in _NAMES:
        return _NAMES[plain]
    match = _NAME.fullmatch(text)
    return match[1] if match else None

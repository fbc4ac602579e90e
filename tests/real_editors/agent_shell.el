;;; agent_shell.el --- What a test does with an agent-shell, by emacsclient -*- lexical-binding: t; -*-

;; $AGENT_SHELL_PATH: the folders of acp.el, shell-maker and agent-shell, with colons between them.

(setq make-backup-files nil
      auto-save-default nil
      load-path (append (split-string (getenv "AGENT_SHELL_PATH") ":" t) load-path)
      agent-shell-session-strategy 'new
      agent-shell-show-busy-indicator nil)
(require 'json)
(require 'agent-shell)

(defvar test-shell nil "The buffer of the shell that was started last.")

(defun test-start (program &rest arguments)
  "Start a shell whose agent is PROGRAM with ARGUMENTS."
  (setq test-shell
        (agent-shell-start
         :config (agent-shell-make-agent-config
                  :identifier 'test
                  :buffer-name "Test"
                  :mode-line-name "Test"
                  :shell-prompt "Test> "
                  :shell-prompt-regexp "Test> "
                  :client-maker (lambda (buffer)
                                  (agent-shell--make-acp-client
                                   :command program
                                   :command-params arguments
                                   :context-buffer buffer))))))

(defun test-press-return ()
  "Do what RET does at point."
  (call-interactively (key-binding (kbd "RET"))))

(defun test-send (text)
  "Type TEXT behind the prompt, and press RET."
  (with-current-buffer test-shell
    (goto-char (point-max))
    (insert text)
    (test-press-return)))

(defun test-choose (name)
  "Press RET on the permission's button with NAME."
  (with-current-buffer test-shell
    (goto-char (cdr (assoc name (test-buttons))))
    (test-press-return)))

(defun test-buttons ()
  "Return the name of each button of an open permission, without frame and key, and its position."
  (let ((position (point-min)) buttons)
    (while (setq position (text-property-any position (point-max) 'button 'permission))
      (let* ((end (next-single-property-change position 'button nil (point-max)))
             (words (buffer-substring-no-properties position end)))
        (push (cons (replace-regexp-in-string "\\`[[ ]+\\|\\( (.*)\\)?[] ]+\\'" "" words) (1+ position)) buttons)
        (setq position end)))
    (nreverse buttons)))

(defun test-look ()
  "Return as JSON what the shell shows, folded parts too, and whether its prompt is open."
  (with-current-buffer test-shell
    (json-encode
     `((text . ,(buffer-substring-no-properties (point-min) (point-max)))
       (buttons . ,(vconcat (mapcar #'car (test-buttons))))
       (session . ,(map-nested-elt agent-shell--state '(:session :id)))
       (busy . ,(if (shell-maker-busy) t :json-false))))))
